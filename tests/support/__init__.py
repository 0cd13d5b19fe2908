"""What tests share: data, strategies, checks and models. Test modules import from here and not from each other."""
