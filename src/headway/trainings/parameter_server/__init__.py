"""Distributed training with a parameter server: numpy over sockets, synchronous or asynchronous."""
