"""The stages of each data set and the operators they are made of."""
