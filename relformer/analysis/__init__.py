"""What position does in a trained model, in numbers: `figures` draws them, callbacks log them."""
