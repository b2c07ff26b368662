"""The nouns and the arithmetic. Pure: no clock, no dice, no files, standard library only."""
