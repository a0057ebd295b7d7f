"""The numbers from which the doctor draws its conclusions, each with its reason."""

LEFT = 0.01
"""The share of a gradient that counts as gone: below 1 %, the noise of a batch of 100 examples drowns it."""
MIN_TARGETS = 5
"""Targets that a lag needs for its mean and spread to be reported."""

NEAR = 5
"""Steps back that any sequence model is expected to see: the span of a short phrase, or of a 5-gram."""
ALMOST_BLIND = 2
"""A memory below this sees at most the previous step: the recurrence is of no use."""
MANY_TIMES = 4
"""Sequences are long compared with the memory if they are this many times as long."""
OUT_OF_REACH, PARTLY_IN_REACH = 0.25, 0.5
"""Shares of the needed distance: a memory shorter than the first is a problem, shorter than the second a warning."""
AT_THE_END = 0.1
"""If the loss enters at fewer inner steps than this share, it has to travel through the whole sequence."""

GROWN, EXPLODED = 10.0, 100.0
"""Growth of a gradient over a sequence: one tenth of it comes from the start, or only one hundredth from the end.

The larger one mirrors LEFT: at 100 times, the newest step has less than 1 % of the influence of the oldest.
"""

SATURATED = 0.05
"""A sigmoid within this distance of 0 or 1 has less than a fifth of its largest slope: σ'(x) = σ(1 - σ) < 0.0475."""
SATURATED_TANH = 0.95
"""A tanh beyond this has less than a tenth of its largest slope: 1 - 0.95² = 0.0975."""
ALWAYS = 0.99
"""A unit is stuck if it is saturated on the same side at this share of all steps."""
MANY_STUCK, MOST_STUCK = 0.5, 0.9
"""Shares of the units of a gate that are stuck: half of them is a warning, nearly all a problem."""
DEAD = 1e-3
"""A unit whose values differ by less than this, relative to the largest of all units, does not react to the input."""
SAME = 0.99
"""Two units with at least this correlation carry the same information."""
MANY_DEAD, MOST_DEAD = 0.2, 0.8
"""Shares of dead units: a fifth of the width is wasted, or most of it."""
LOW_RANK = 0.1
"""Share of the width that the states fill, below which a narrower layer would do."""
ENOUGH_STEPS = 2.0
"""Steps per unit that are needed to say something about the rank of the states."""

EVEN = 0.95
"""A head whose entropy is at least this share of the largest attends to everything alike."""
SINGLE = 0.05
"""A head whose entropy is at most this share attends to a single place."""
MOST_HEADS = 0.5
"""Share of the heads that make a finding."""

LITTLE = 0.05
"""Share by which the training loss has to fall before a model counts as having learned something."""
FEW_UPDATES = 50
"""A training this short ends before its loss says anything about the learning rate."""
ABSURD = 1e6
"""A training loss or gradient norm above this, without any fall of the loss, is that of weights that have exploded."""
FAR_ABOVE = 10.0
"""Times the loss of the trivial baseline, beyond bad luck at the start; or times the default learning rate, so that a
third of it would still be too high."""
FAR_TOO_HIGH = 100.0
"""Times the default learning rate, from which on a model that learns nothing needs no other explanation."""
SGD_LEARNING_RATE = 0.1
"""Where to start with SGD, whose updates are not divided by the size of the gradient; defaults are those of Adam."""
OFTEN_CLIPPED = 0.5
"""Share of clipped updates above which clipping, not the learning rate, sets the size of most updates of SGD."""
UNBALANCED = 1e4
"""Ratio of the gradient norms of two groups of parameters, beyond what the second moment of Adam balances well."""
SPIKE = 10.0
"""A gradient norm this many times the median is a spike."""
LARGE_GAP = 1.5
"""Growth of dev loss / training loss between the first and the last evaluation. It is a ratio of ratios, since the
training loss is computed with dropout, and on some tasks in another unit."""
WORSE = 1.05
"""Dev loss at the end relative to its best, beyond the noise of most dev data: training went on too long."""
STILL_FALLING = 0.05
"""Share by which the training loss fell in the last fifth of a training, so that more updates would help."""
