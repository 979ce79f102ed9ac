"""Pictures of whole networks and of the literature: operators, quantization, memory, checkpoint, reproduce."""
from .scenes_of_networks import FORMAT_MARKS, bits_and_quality
from .spec import Plot, Scene

# Binary exponents of the least subnormal, the least normal and the largest number.
RANGES = (("fp16", -24, -14, 15), ("bf16", -133, -126, 127), ("e4m3", -9, -6, 8), ("e5m2", -16, -14, 15))

PLOTS = {
    "operators": (
        Plot("autocast", "Error of each operator: all in the format, and with FP32 inside", "dots", "operator", ("all", "tensors"), panels="format", value_scale="log",
             value_label="largest error in unit roundoffs", reading="Near 1: as good as rounding the result once. ∞: some result overflows.", first=True),
        Plot("models", "Models under a list of precisions", "dots", "precisions", ("error",), series="format", panels="model", value_scale="log", value_label="relative error of the outputs"),
        Plot("cancellation", "Error of a difference that cancels, and of the form that does not", "lines", "k", ("naive_error", "stable_error"), panels="naive_form", where={"format": "bf16"},
             value_scale="log", along_label="k, for x near 2^-k", value_label="relative error", reading="1: nothing is left. x and y are rounded before x - y is formed; the subtraction is exact."),
        Plot("backward", "Errors of gradients: all in the format, and with FP32 sums", "dots", "operator", ("error_u",), series="how", panels="format", where={"scale": 1.0}, value_scale="log",
             value_label="error in unit roundoffs", reading="Near 1: as good as rounding the gradient once. ∞: some gradient is no number."),
        Plot("repeated_tokens", "Gradients of a token, added over its positions", "lines", "positions", ("equal", "equal_fp32_sums"), panels="format", along_scale="log2", value_scale="log",
             along_label="positions of the token", value_label="sum / one gradient", reading="A line that turns flat: further gradients are lost.")),
    "quantization": (
        Plot("accuracy", "Accuracy after quantization, by calibration of activations", "dots", "activations", ("accuracy",), series="bits", panels="granularity", where={"network": "mlp", "weights": "max"},
             value_label="test accuracy", reading="The series is the number of bits; a panel says what has a scale of its own.", first=True),
        Plot("qat", "What training on with quantization brings back", "dots", "bits", ("fp32", "ptq", "qat"), panels="granularity", where={"network": "mlp"}, value_label="test accuracy",
             everywhere=True, reading="fp32: before; ptq: quantized; qat: after training on. A panel says what of the weights has a scale of its own. 32 bits: training went on in FP32, without scales."),
        Plot("planted", "What outlier columns cost each method", "dots", "method", ("accuracy",), series="ratio", where={"network": "mlp"}, value_label="test accuracy",
             reading="The series is how many times larger the outliers are than all other values.")),
    "memory": (
        Plot("bytes_per_parameter", "Bytes a parameter takes", "stacked", "policy", ("parameters", "gradients", "master", "first", "second", "compensation", "copies"), panels="model",
             value_label="bytes a parameter", first=True),
        Plot("ranks", "Memory of a rank, by ZeRO stage and number of ranks", "lines", "ranks", ("gb",), series="stage", panels="model", where={"policy": "amp-bf16"}, along_scale="log2",
             value_scale="log", value_label="memory of a rank, without activations", same_values=False),
        Plot("batch", "Share of activations in a training's memory, by the micro-batch", "lines", "batch", ("share",), series="recomputation", panels="model", where={"policy": "O2"},
             along_scale="log2", value_limits=(0, 1), along_label="sequences of a micro-batch", value_label="share, nothing sharded",
             reading="Above one half, the batch decides how much memory a training needs; below, the parameters do."),
        Plot("inference", "Bytes at inference, by the format of the weights", "stacked", "weights", ("weight_bytes", "cache_bytes"), panels="model", where={"cache": "bf16"},
             value_label="bytes", same_values=False),
        Plot("training_devices", "Devices that a training needs, by their memory", "lines", "device_gb", ("devices",), series="policy", panels="model", where={"recomputation": "none"},
             value_scale="log2", along_label="GB of a device", value_label="devices (a rank each)", same_values=False, uneven=True, empty="activations and what is gathered alone are too much for a device"),
        Plot("inference_devices", "Devices that inference needs, by their memory", "lines", "device_gb", ("devices",), series="weights", panels="model", where={"cache": "bf16"},
             value_scale="log2", along_label="GB of a device", value_label="devices", same_values=False, uneven=True)),
    "checkpoint": (
        Scene(("formats",), "Bits against SQNR, by format", bits_and_quality, legend=FORMAT_MARKS, reading="Up: more is kept. Left: less memory. A long line: some tensor loses much more than the whole.", file="formats"),
        Plot("exponents", "Magnitudes by role, over the ranges of formats", "lines", "exponent", ("elements",), series="role", added="zeros", value_scale="log", along_label="binary exponent",
             value_label="share of the role's elements", ranges=RANGES, reading="Values left of a range become zero without a scale, values right of it saturate or overflow."),
        Plot("layers", "What each layer keeps in each format", "heatmap", "layer", ("sqnr",), series="format", exact=("relative_error", "not_finite"), value_limits=(0, 60), value_label="SQNR (dB)",
             empty="nothing in it stays finite", reading="Look for cells that are more orange than the rest of their column: such layers need a wider format. 6 dB are one bit."),
        Plot("roles", "What each role keeps in each format", "heatmap", "role", ("sqnr",), series="format", exact=("relative_error", "not_finite"), value_limits=(0, 60), value_label="SQNR (dB)",
             empty="nothing in it stays finite", reading="Look for cells that are more orange than the rest of their column: such tensors could stay in a wider format.")),
    "checkpoint_choice": (
        Plot("totals", "The mix beside single formats", "dots", "format", ("sqnr",), value_label="SQNR of all tensors", empty="nothing is lost",
             reading="The bytes of each are in the table.", first=True),
        Plot("choice", "What each tensor keeps in the format that it got", "dots", "tensor", ("sqnr",), series="format", value_label="SQNR (dB)", empty="it stays as it is stored")),
    "checkpoint_quantized": (
        Plot("formats", "Bytes before and after, by format", "dots", "format", ("bytes_before", "bytes"), value_label="bytes", first=True),
        Plot("tensors", "What each rounded tensor keeps", "dots", "tensor", ("sqnr",), series="format", value_label="SQNR (dB)", empty="nothing is lost")),
    "checkpoint_difference": (
        Plot("causes", "What explains the tensors of both", "dots", "because", ("tensors",), value_label="tensors", first=True),
        Plot("differences", "Where they differ", "dots", "tensor", ("sqnr",), value_label="SQNR (dB)", empty="nothing differs")),
    "reproduce": (
        Plot("lines", "Published results, and how many of their figures are reproduced", "stacked", "line", ("held", "differ", "failed", "skipped"), value_label="figures", first=True),),
}
