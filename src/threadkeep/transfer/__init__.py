"""Transfer: data of other programs adopted, and sessions handed over to them."""
