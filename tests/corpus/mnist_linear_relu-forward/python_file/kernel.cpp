import torch


def forward(x, weights, biases):
    return torch.relu(torch.nn.functional.linear(x, weights, biases))
