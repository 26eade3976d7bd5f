/* Attention features, one at a time. */
