"""Pictures of sums, products and scales: accumulation, collectives, attribution, scaling."""
from .scenes_of_sums import BLOCK_MARKS, WATERFALL_MARKS, blocks, message_courses, waterfalls
from .spec import Plot, Scene

PLOTS = {
    "accumulation": (
        Plot("sums", "Error of a sum, by its length", "lines", "terms", ("mean_error",), series="order", panels="accumulator", where={"rounding": "nearest-even"}, along_scale="log", same_values=False,
             value_scale="log", along_label="length n (terms)", value_label="mean error / sum of |terms|", guides=("n_u", "sqrt_n_u"), empty="every run overflowed",
             reading="A line of slope 1 loses a digit for each tenfold length; a flat one loses none. Dotted guides: n u bounds the sequential sum; √n u is its size if rounding errors are random.", first=True),
        Plot("harmonic", "Where the harmonic series stops growing", "dots", "rounding", ("sum",), series="format", value_scale="log", value_label="sum of 1/n",
             reading="The exact sum has no limit. ∞: rounded upwards it overflows."),
        Plot("matrix_units", "Dot products on matrix units, without and with promotion to FP32", "lines", "terms", ("rms_error", "promoted_rms_error"), series="unit",
             where={"factors": "uniform"}, along_scale="log2", value_scale="log", along_label="length k", value_label="relative error")),
    "collectives": (
        Scene(("messages",), "Who sends to whom until one rank has the sum", message_courses, reading="Ranks from left to right, rounds from top to bottom. Each arrow is an addition and a rounding on the way."),
        Plot("errors", "Error of a reduced gradient, by the number of ranks", "lines", "ranks", ("rms_error",), series="algorithm", panels="format", where={"signal": 0.0}, along_scale="log2",
             value_scale="log", value_label="relative rms error"),
        Plot("orders", "How many results the same gradients have in other orders of the ranks", "dots", "algorithm", ("mean_results",), series="format",
             value_label="distinct results of an element, mean", reading="1: the order of ranks does not matter.")),
    "attribution": (
        Scene(("sources",), "The error of a product, part by part", waterfalls, legend=WATERFALL_MARKS,
              reading="Left: each part begins where the last one ended. Right: the same parts by powers of ten, with their numbers. Either side has one scale for all formats. Contributions add up to the total; a part's own error can be larger, because parts cancel.", file="waterfall"),
        Plot("sources", "Where the error of a product comes from", "dots", "source", ("error",), series="formats", panels="accumulator", value_scale="log",
             value_label="norm of the part / norm of the product", reading="The farthest to the right decides the total; parts are no shares, and may cancel."),
        Plot("promotion", "The accumulator's part, by the length of the product", "lines", "terms", ("error",), series="accumulator", panels="factors", along_scale="log2", value_scale="log",
             along_label="length k", value_label="relative error")),
    "scaling": (
        Scene(("block", "granularity"), "Values of a row beside an outlier, before and after", blocks, legend=BLOCK_MARKS,
              reading="The arrow is the outlier, far beyond the axis, with its value before and after. What shares its scale may fall to 0."),
        Plot("outliers", "What one outlier channel costs all others", "lines", "outlier", ("others_error",), series="format", along_scale="log", value_scale="log",
             along_label="factor of the outlier channel", value_label="relative error of the others", reading="1: nothing is left of the other channels."),
        Plot("delayed_course", "Scales that go by earlier steps", "lines", "step", ("error",), series="history", panels="course", where={"margin": 0}, value_scale="log",
             value_label="relative error", along_label="step", reading="The series is the number of steps remembered; a scale that is too old saturates, or rounds to zero.")),
}
