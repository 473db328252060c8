"""The long tests, and the soak: rounds of faults for as long as you like, and a page of figures."""
