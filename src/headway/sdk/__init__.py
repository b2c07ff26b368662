"""What training scripts import. Standard library only; never raises into them."""
