"""Does arbitration rank better than fusing? Policies tuned on some questions of public collections, compared on the others."""
