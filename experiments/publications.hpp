// Publications whose results experiments repeat. A claim says in its source which one it helps to repeat, or its
// experiment says so for all; `reproduce` counts what came out.
#pragma once

#include <halfulp/report/claim.hpp>

#include <array>

namespace halfulp::publications {

inline constexpr Publication ieee_binary16{
    "IEEE 754 binary16", "IEEE 754-2019, sections 3.6, 4.3.1 and 7.4",
    "FP16: largest number 65504, 65520 rounds to Infinity, subnormals down to 2^-24, integers exact to 2048"};
inline constexpr Publication fp8_formats{
    "FP8, E4M3 and E5M2", "Micikevicius et al. 2022, FP8 Formats for Deep Learning, tables 1 and 2; OCP OFP8 1.0",
    "largest, smallest normal and smallest subnormal numbers; 464 rounds to 448, 61440 to Infinity"};
inline constexpr Publication mx_elements{
    "OCP MX elements and scales", "OCP Microscaling Formats 1.0, sections 5.2 to 5.4 and 6.3",
    "largest numbers 6, 28, 7.5 and 2^127 of E2M1, E3M2, E2M3 and E8M0; blocks of 32; scales rounded down saturate"};
inline constexpr Publication nvfp4{"NVFP4", "NVIDIA 2025, Pretraining Large Language Models with NVFP4",
                                   "4.5 bits an element; less error than MXFP4"};
inline constexpr Publication fp16_updates{
    "Updates lost in FP16", "Micikevicius et al. 2018, Mixed Precision Training, section 3.1",
    "w + u at w = 1 is lost where w/u >= 2048 in FP16 (256 in BF16, 16 in E4M3, 8 in E5M2); without master weights "
    "accuracy is lost"};
inline constexpr Publication fp16_gradients{
    "Gradients lost in FP16", "Micikevicius et al. 2018, Mixed Precision Training, sections 3.1 and 3.2",
    "gradients below 2^-24 vanish, a loss scale of 8 brings [2^-27, 2^-24) back; about 5 % of a speech model's, 67 "
    "% of a detector's activation gradients are zero"};
inline constexpr Publication mixed_precision{"Mixed precision is as good as FP32",
                                             "Micikevicius et al. 2018, Mixed Precision Training, section 4",
                                             "FP16 products with FP32 weights and loss scaling reach FP32's accuracy"};
inline constexpr Publication bf16_without_scaling{
    "BF16 without loss scaling", "Kalamkar et al. 2019, A Study of BFLOAT16 for Deep Learning Training",
    "BF16 products and FP32 weights reach FP32's accuracy; BF16 weights alone do not"};
inline constexpr Publication grad_scaler{
    "GradScaler", "PyTorch documentation, torch.amp.GradScaler",
    "starts at 65536, doubles every 2000 steps, halves at an overflow: 16 overflows in a row leave 1"};
inline constexpr Publication adam_constants{
    "Adam's constants", "Kingma & Ba 2015, Adam; Loshchilov & Hutter 2019, Decoupled Weight Decay Regularization",
    "eps 1e-8 is 0 in FP16 and survives above 2^-25; beta2 0.999 is 1 in BF16, so that 1 - beta2 is 0"};
inline constexpr Publication position_ids{
    "Position ids in 16 bits", "Baichuan and Llama position ids: huggingface/transformers #29285",
    "BF16: first clash at 257; 641, 769, 897, 1409 distinct ids of 2048, 4096, 8192, 131072; FP16: 2049, and 3073 "
    "of 4096"};
inline constexpr Publication rotary_angles{
    "Rotary angles in FP16", "EleutherAI/gpt-neox #1003",
    "angle 1045 for 1044.2678; largest change of a cosine 0.7819, and 0.490 if the angle alone is cast"};
inline constexpr Publication alibi_slopes{"ALiBi's slopes", "Press, Smith & Lewis 2022, section 3",
                                          "powers of two for 8 heads"};
inline constexpr Publication harmonic_sums{
    "Harmonic sums", "Higham 2002, Accuracy and Stability, problem 4.2; chop's demo_harmonic (Higham & Pranesh 2019)",
    "sums of 1/n stop at 7.0859375 (n = 513) in FP16, at 5.0625 (n = 65) in BF16"};
inline constexpr Publication ones_in_bf16{"Ones in BF16", "ml-explore/mlx #3909; huggingface/candle #3718",
                                          "70,000 ones add up to 256 in BF16, 20,000 to 2048 in FP16"};
inline constexpr Publication uniform_in_bf16{"Uniform numbers in BF16", "jax-ml/ml_dtypes #63",
                                             "10^4 numbers in (0, 1) add up to 256"};
inline constexpr Publication error_bounds{
    "Error bounds of sums",
    "Higham 2002, chapter 4; Blanchard, Higham & Mary 2020; Higham & Mary 2019; Connolly, Higham & Mary 2021",
    "errors are below n u, typically about sqrt(n) u; stochastic rounding stays within sqrt(n) u where nearest "
    "stagnates"};
inline constexpr Publication few_random_bits{
    "Few random bits", "Croci et al. 2022, Stochastic rounding; Connolly, Higham & Mary 2021",
    "r bits, truncated and added, are biased by -2^-(r+1) ulp on average; all bits are unbiased"};
inline constexpr Publication hopper_fp8{
    "FP8 sums on Hopper", "DeepSeek-V3 2024, section 3.3.2",
    "about 14 bits are kept, nearly 2 % largest relative error at K = 4096; promotion to FP32 every 128 repairs it"};
inline constexpr Publication outlier_channels{
    "Outlier channels", "an earlier measurement of this project's, 32 x 1024 of N(0, 1), E4M3, repeated",
    "relative error of the other channels at 10^4: 3.0 / 2.6 / 3.0 % per tensor, 1x128, MX32; at 10^6: 100 / 24 / "
    "12 %; at 100 nothing"};
inline constexpr Publication pure_bf16{
    "Pure BF16 and its repairs", "Zamirai et al. 2021, Revisiting BFloat16 Training",
    "worse than FP32, clearly so in small steps; stochastic rounding or Kahan summation of updates bring it back"};
inline constexpr Publication fp8_training{
    "FP8 and MX training", "Micikevicius et al. 2022; DeepSeek-V3 2024, section 3.3; Rouhani et al. 2023, section 5",
    "products in FP8 and MXFP8 train as well as 16 bits"};
inline constexpr Publication optimizer_states{
    "Optimizer states in 8 and 16 bits",
    "Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization; DeepSeek-V3 2024, section 3.3.3",
    "moments in BF16 and in blocks of 8 bits train as well as in FP32"};
inline constexpr Publication loss_spikes{
    "Spikes of large models", "Zeng et al. 2022, GLM-130B, section 3.3; Chowdhery et al. 2022, PaLM, section 5.1",
    "a smaller gradient of the embedding, and leaving out batches around a spike, keep a training stable"};
inline constexpr Publication fp16_operators{
    "Softmax and norms in FP16",
    "PyTorch documentation, torch.amp, operators that autocast to float32; NVIDIA/apex, amp lists",
    "exp overflows from ln 65520 = 11.0901 on, 256^2 is Infinity; these operators belong to FP32"};
inline constexpr Publication double_rounding{
    "Double rounding", "Figueroa 1995; Boldo & Melquiond 2008; issues of libraries that cast in two steps",
    "a cast through a wider format gives another result than the direct one on some inputs"};
inline constexpr Publication integer_formats{
    "INT8 and INT4", "Dettmers et al. 2022, LLM.int8(); Wu et al. 2020, Integer Quantization; Jacob et al. 2018",
    "over 99.9 % of values in INT8 with outlier columns kept in 16 bits, and quality kept where plain INT8 loses it"};
inline constexpr Publication training_memory{
    "Memory of a training", "Rajbhandari et al. 2020, ZeRO, figure 1; BLOOM: 176 B parameters",
    "7.5 B parameters on 64 ranks: 120 / 31.4 / 16.6 / 1.9 GB; BLOOM's weights 352 GB"};

/// In the order of a lecture.
inline constexpr std::array all{
    &ieee_binary16,   &fp8_formats,          &mx_elements,     &nvfp4,           &fp16_updates,     &fp16_gradients,
    &mixed_precision, &bf16_without_scaling, &grad_scaler,     &adam_constants,  &position_ids,     &rotary_angles,
    &alibi_slopes,    &harmonic_sums,        &ones_in_bf16,    &uniform_in_bf16, &error_bounds,     &few_random_bits,
    &hopper_fp8,      &outlier_channels,     &pure_bf16,       &fp8_training,    &optimizer_states, &loss_spikes,
    &fp16_operators,  &double_rounding,      &integer_formats, &training_memory};

}  // namespace halfulp::publications
