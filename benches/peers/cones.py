"""The layer in the words of conic solvers: variables (x, t), rows Gx <= h, then (t_i, 1, x_i) in the exponential cone."""
import numpy as np
from scipy import sparse


def cones(data):
    """The rows, the number of linear ones, and a function from (c, lam, b), or batches, to the cost and the right side."""
    A = np.asarray(data["usage"])
    m, d = A.shape
    box = np.concatenate([np.full(d, data["upper"]), np.full(d, -data["lower"])])
    k = m + 2 * d
    x, t, place = np.arange(d), d + np.arange(d), k + 3 * np.arange(d)
    linear = sparse.vstack([sparse.coo_array(A), sparse.eye_array(d), -sparse.eye_array(d)]).tocoo()
    rows = sparse.csr_array(
        (np.concatenate([linear.data, -np.ones(2 * d)]),
         (np.concatenate([linear.row, place, place + 2]), np.concatenate([linear.col, t, x]))),
        shape=(k + 3 * d, 2 * d))

    def right(c, lam, b):
        h = np.zeros((*c.shape[:-1], k + 3 * d))
        h[..., :k] = np.concatenate([b, np.broadcast_to(box, (*c.shape[:-1], 2 * d))], -1)
        h[..., k + 1::3] = 1
        return np.concatenate([lam @ A, -c], -1), h
    return rows, k, right
