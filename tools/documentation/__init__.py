"""Makes the documentation: pages of docs/, with what is taken from the code, as a folder of HTML."""
