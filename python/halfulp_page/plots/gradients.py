"""Pictures of single roundings and of recurrences: underflow, conversions, swamping, position_ids, recurrent."""
from .scenes import ID_MARKS, NUMBER_LINE_MARKS, RANGE_MARKS, gradients_over_ranges, number_lines, token_ids
from .spec import Plot, Scene

PLOTS = {
    "underflow": (
        Scene(("number_line", "limits"), "The numbers of two 8-bit formats", number_lines, legend=NUMBER_LINE_MARKS,
              reading="A stroke is a number. Between powers of two they are equally far apart, and twice as far in each next interval; subnormal ones are as far apart as those after them.", file="numbers"),
        Scene(("histogram", "limits", "best_scale"), "Gradients over the ranges of formats", gradients_over_ranges, legend=RANGE_MARKS,
              file="ranges",
              reading="Dashed: the same gradients after the loss scale that loses fewest of them in the first format. Shaded: what becomes zero in it."),
        Plot("scale_sweep", "Gradients that become zero, by loss scale", "lines", "k", ("gradient_zero",), series="format", panels="source", value_label="share of gradients that vanish",
             along_label="log2 of the loss scale", file="vanish", reading="A larger loss scale moves gradients up, away from zero."),
        Plot("scale_sweep", "Gradients that overflow, by loss scale", "lines", "k", ("gradient_overflow",), series="format", panels="source", value_label="share of gradients that overflow",
             along_label="log2 of the loss scale", file="overflow", reading="A scale is of use only where this is still 0; the table best_scale has the best one."),
        Plot("fates", "What becomes of gradients without a loss scale", "stacked", "format", ("zero", "subnormal", "normal", "overflow"), panels="source",
             where={"rounding": "nearest-even", "quantity": "gradient"}, value_label="share of gradients")),
    "conversions": (
        Plot("chains", "Conversions that a format on the way changes", "dots", "chain", ("share",), series="rounding", value_scale="log", value_label="share of results that differ",
             reading="Of the results that are normal numbers. 0: the chain gives what the direct conversion gives, always.", first=True),
        Plot("libraries", "Library casts that round on the way", "dots", "chain", ("share",), series="library", value_scale="log", value_label="share of results that differ",
             reading="Of the results that are normal numbers.")),
    "swamping": (
        Plot("course", "A weight, step by step, and what repairs it", "lines", "step", ("weight",), series="method", panels="format", steps=True, value_label="weight", same_values=False, whiskers=("low", "high"),
             band="one standard deviation of stochastic", ends="one more step would take the exact weight beyond 1.5",
             reading="Every step adds the same update, less than half the distance to the next number. Stochastic rounding: the mean over seeds with a band of one standard deviation, and one seed alone.", first=True),
        Plot("ratios", "How much of an update has arrived after {steps} steps, by the ratio of weight to update", "lines", "asked_ratio", ("arrived",), series="rounding", panels="format", where={"form": "separate"},
             along_scale="log2", along_label="w / (lr·g)", value_label="share of the way", value_limits=(-0.1, 2.0),
             reading="1: the weight is where exact arithmetic would have it; 0: it has not moved."),
        Plot("repairs", "What repairs a swamped update", "dots", "method", ("arrived",), series="format", value_label="share of the way after all steps")),
    "position_ids": (
        Scene(("ids",), "Tokens and their ids around the first clash", token_ids, legend=ID_MARKS, reading="Where the stair is flat, neighbouring tokens have the same id."),
        Plot("groups", "Tokens that share one position id", "lines", "first_position", ("mean_tokens",), series="format", along_scale="log2", value_scale="log2", steps=True,
             along_label="position", value_label="tokens an id stands for, mean", reading="1: every token has an id of its own."),
        Plot("rope", "Errors of rotary embeddings from rounded position ids", "lines", "tokens", ("mean_cos_error",), series="format", where={"setup": "ids"}, along_scale="log2", value_scale="log",
             along_label="context length", value_label="mean error of cosines", file="rope-ids"),
        Plot("rope", "Errors of rotary embeddings, by what is rounded", "lines", "tokens", ("mean_cos_error",), series="setup", panels="format", along_scale="log2", value_scale="log",
             along_label="context length", value_label="mean error of cosines", reading="Angles that are wrapped, or cosines alone, cost a rounding; ids and frequencies cost more the longer the context."),
        Plot("scores", "Errors of attention scores after rotation, by what is rounded", "lines", "tokens", ("rms_error",), series="setup", panels="format", along_scale="log2", value_scale="log",
             along_label="context length", value_label="rms error of scores", empty="no score is a finite number"),
        Plot("images", "Positions of a vision transformer's tokens", "dots", "format", ("tokens", "distinct"), panels="pixels", value_label="tokens", reading="Two markers apart: tokens share positions.")),
    "recurrent": (
        Plot("forward", "Errors of a recurrent cell's state, by time", "lines", "steps", ("error",), series="format", panels="cell", where={"rounded": "state"}, along_scale="log2", value_scale="log",
             along_label="time steps", value_label="relative error of h", reading="A flat line: what was off is forgotten as fast as steps add to it.", first=True),
        Plot("gradient", "Gradients of the last state, by distance", "lines", "distance", ("rounded_norm",), series="cell", panels="format", along_scale="log2", value_scale="log",
             along_label="steps back", value_label="norm of the gradient", reading="A line that ends has reached zero; a flat one below the others is stuck there."),
        Plot("memory", "A cell that counts", "lines", "increments", ("cell_state",), series="format", panels="state", along_scale="log2", value_scale="log2", along_label="increments of 1/2",
             value_label="cell state")),
}
