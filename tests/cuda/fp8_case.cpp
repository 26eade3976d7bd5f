#include "fp8_case.h"

#include "kernel_check.h"

extern "C" {
#include "tests/reference/formats.h"
#include "tests/reference/random.h"
#include "tests/reference/tensor.h"
}

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace
{

constexpr int OUTPUT_FILL = 0xA5;

bool is_mma_or_vectors(way by)
{
    return by == way::MMA || by == way::WARP;
}

tdm_tensor matrix(tdm_dtype dtype, int64_t rows, int64_t columns, int64_t extra)
{
    tdm_tensor tensor = tensor2(dtype, rows, columns);
    tensor.stride[0] = format_bytes(dtype, columns + extra);
    return tensor;
}

/* Random codes but for NaN. */
void fill_codes(std::vector<unsigned char> &to, struct random *random)
{
    for (unsigned char &code : to) {
        const int64_t i = random_below(random, 254);
        code = static_cast<unsigned char>(i < 127 ? i : i + 1);
    }
}

void fill_scales(const fp8_case &c, std::vector<unsigned char> &to, int64_t count, struct random *random)
{
    to.resize(static_cast<size_t>(format_bytes(c.scale_dtype, count)));
    for (int64_t i = 0; i < count; i++) {
        float scale;
        random_scales(&scale, 1, c.scale_size, random);
        if (c.scale_dtype == TDM_E8M0)
            to[static_cast<size_t>(i)] =
                static_cast<unsigned char>(127 + std::ilogb(c.scale_size) - random_below(random, 3));
        else
            format_encode(c.scale_dtype, to.data(), i, scale);
    }
}

/* What the device gets of a problem. */
struct on_device {
    device_memory a, b, b_scale, bias, a_scale, codes, scales, out;

    explicit on_device(const fp8_problem &p)
        : a(p.a, p.setup.by == way::WARP_BYTES ? 4 : 0), b(p.b, p.setup.by == way::WARP_BYTES ? 1 : 0),
          b_scale(p.b_scale), bias(p.bias), a_scale(sizeof p.a_scale),
          codes(static_cast<size_t>(format_bytes(p.setup.dtype, p.setup.m * p.setup.k))),
          scales(static_cast<size_t>(p.setup.m) * sizeof(float)), out(p.out)
    {
        a_scale.write(&p.a_scale);
    }
};

fp8_weights weights_of(const fp8_problem &p, const on_device &d)
{
    const fp8_case &c = p.setup;
    return {d.b.data(),
            p.desc.b.stride[0],
            d.b_scale.data(),
            c.scale_dtype,
            c.n,
            c.k,
            std::min(c.block_n, c.n),
            std::min(c.block_k, c.k),
            c.k ? (c.k - 1) / c.block_k + 1 : 0};
}

fp8_gemv gemv_of(const fp8_problem &p, const on_device &d)
{
    const fp8_case &c = p.setup;
    fp8_gemv gemv = {};
    gemv.b = weights_of(p, d);
    gemv.dtype = c.dtype;
    gemv.m = c.m;
    gemv.a = d.a.data();
    gemv.a_stride = p.desc.a.stride[0];
    gemv.a_scale = c.round == rounding::GIVEN ? reinterpret_cast<const float *>(d.a_scale.data()) : nullptr;
    gemv.vectors = is_mma_or_vectors(c.by);
    gemv.round = c.by == way::MMA && c.round == rounding::GIVEN && c.m <= 8;
    gemv.multiprocessors = c.multiprocessors;
    gemv.bias = c.bias ? d.bias.data() : nullptr;
    gemv.out = d.out.data();
    gemv.out_stride = p.desc.out.stride[0];
    return gemv;
}

/* Rounded activations take the place of the given ones. */
void round_first(const on_device &d, fp8_gemv *gemv)
{
    const fp8_rounding r = {gemv->dtype,    gemv->m,       gemv->b.k,      gemv->a,
                            gemv->a_stride, gemv->a_scale, d.codes.data(), reinterpret_cast<float *>(d.scales.data())};
    must(fp8_round(&r, nullptr), "fp8_round");
    gemv->a = r.codes;
    gemv->a_stride = format_bytes(gemv->dtype, gemv->b.k);
    gemv->a_scale = r.scales;
    gemv->a_scale_step = 1;
}

std::vector<unsigned char> read(const void *data, size_t bytes)
{
    std::vector<unsigned char> to(bytes);
    must(cudaMemcpyAsync(to.data(), data, bytes, cudaMemcpyDefault, nullptr), "cudaMemcpyAsync");
    must(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    return to;
}

/* sums[rows, columns] = a * weights^T in f32, of a that starts at row `first`. */
std::vector<unsigned char> multiply(const fp8_gemv &gemv, int64_t first, int64_t rows, const fp8_dequantization &w)
{
    const int64_t k = gemv.b.k;
    const auto weights = read(w.out, static_cast<size_t>(format_bytes(w.dtype, w.rows * k)));
    std::vector<unsigned char> sums(static_cast<size_t>(rows * w.rows) * sizeof(float));
    for (int64_t m = 0; m < rows; m++) {
        const auto a = read(static_cast<const char *>(gemv.a) + (first + m) * gemv.a_stride,
                            static_cast<size_t>(format_bytes(gemv.dtype, k)));
        for (int64_t n = 0; n < w.rows; n++) {
            double sum = 0;
            for (int64_t i = 0; i < k; i++)
                sum += format_decode(gemv.dtype, a.data(), i) * format_decode(w.dtype, weights.data(), n * k + i);
            format_encode(TDM_F32, sums.data(), m * w.rows + n, sum);
        }
    }
    return sums;
}

void run_widened(const fp8_case &c, const fp8_gemv &gemv)
{
    const int64_t k = gemv.b.k, n = gemv.b.n;
    const bool vectors = k % FP8_CHUNK == 0 && gemv.b.stride % FP8_ALIGNMENT == 0 &&
                         (gemv.b.block_k == k || gemv.b.block_k % FP8_CHUNK == 0);
    const device_memory exponents(static_cast<size_t>((n - 1) / gemv.b.block_n + 1) * sizeof(int32_t));
    const device_memory weights(static_cast<size_t>(format_bytes(gemv.dtype, std::min(n, c.tile_columns) * k)));
    fp8_dequantization w = {gemv.b,  gemv.dtype,    0, 0, reinterpret_cast<int32_t *>(exponents.data()),
                            vectors, weights.data()};
    if (k)
        must(fp8_exponents(&w, nullptr), "fp8_exponents");
    for (; w.first < n; w.first += w.rows) {
        w.rows = std::min(c.tile_columns, n - w.first);
        if (k)
            must(fp8_dequantize(&w, nullptr), "fp8_dequantize");
        for (int64_t first = 0, rows; first < gemv.m; first += rows) {
            rows = std::min(c.tile_rows, gemv.m - first);
            const device_memory sums(multiply(gemv, first, rows, w));
            const fp8_result result = {gemv.dtype,
                                       rows,
                                       w.rows,
                                       w.first,
                                       k ? reinterpret_cast<const float *>(sums.data()) : nullptr,
                                       w.exponents,
                                       gemv.b.block_n,
                                       gemv.a_scale ? gemv.a_scale + first : nullptr,
                                       gemv.bias,
                                       static_cast<char *>(gemv.out) + first * gemv.out_stride,
                                       gemv.out_stride};
            must(fp8_finish(&result, nullptr), "fp8_finish");
            must(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize"); /* before the sums go */
        }
    }
}

} // namespace

std::string label_of(const fp8_case &c)
{
    static const char *const ways[] = {"mma", "warp", "warp by bytes", "widened"};
    char text[200];
    std::snprintf(text, sizeof text, "%s, %s, scales %s of %g, m %lld n %lld k %lld, block %lld x %lld%s%s%s",
                  ways[static_cast<int>(c.by)], format_name(c.dtype), format_name(c.scale_dtype), c.scale_size,
                  static_cast<long long>(c.m), static_cast<long long>(c.n), static_cast<long long>(c.k),
                  static_cast<long long>(c.block_n), static_cast<long long>(c.block_k),
                  c.round == rounding::GIVEN     ? ", a_scale"
                  : c.round == rounding::OF_ROWS ? ", dynamic a_scale"
                                                 : "",
                  c.bias ? ", bias" : "", c.strided ? ", strided" : "");
    return text;
}

fp8_problem::fp8_problem(const fp8_case &c) : setup(c), desc(TDM_INIT(tdm_fp8_matmul_desc)), a_scale(2.f / 300)
{
    const int64_t step = is_mma_or_vectors(c.by) ? 16 : 3; /* elements between strided rows */
    struct random random = {c.seed};
    desc.a = matrix(c.dtype, c.m, c.k, c.strided ? step : 0);
    desc.b = matrix(TDM_F8E4M3, c.n, c.k, c.strided ? step : 0);
    desc.out = matrix(c.dtype, c.m, c.n, c.strided ? 5 : 0);
    desc.b.scaling = TDM_PER_BLOCK;
    desc.b.scale_dtype = c.scale_dtype;
    desc.b.block[0] = c.block_n;
    desc.b.block[1] = c.block_k;
    desc.has_bias = c.bias;
    desc.has_a_scale = c.round == rounding::GIVEN;
    desc.dynamic_a_scale = c.round == rounding::OF_ROWS;
    a.assign(static_cast<size_t>(tensor_bytes(&desc.a)), 0xFF);
    b.assign(static_cast<size_t>(tensor_bytes(&desc.b)), 0x7F);
    out.assign(static_cast<size_t>(tensor_bytes(&desc.out)), OUTPUT_FILL);
    random_fill(&desc.a, a.data(), 2, &random);
    fill_codes(b, &random);
    fill_scales(c, b_scale, tensor_scales(&desc.b), &random);
    const tdm_tensor row = tensor2(c.dtype, 1, c.n);
    bias.resize(c.bias ? static_cast<size_t>(tensor_bytes(&row)) : 0);
    if (c.bias)
        random_fill(&row, bias.data(), 2, &random);
}

void fp8_problem::put_a(int64_t m, int64_t k, double x)
{
    tensor_put(&desc.a, a.data(), 0, 0, m, k, x);
}

void fp8_problem::put_b(int64_t n, int64_t k, uint8_t code)
{
    static_cast<uint8_t *>(tensor_row(&desc.b, b.data(), 0, 0, n))[k] = code;
}

tdm_fp8_matmul_args fp8_problem::args()
{
    tdm_fp8_matmul_args args = TDM_INIT(tdm_fp8_matmul_args);
    args.a = a.data();
    args.b = b.data();
    args.b_scale = b_scale.data();
    args.bias = setup.bias ? bias.data() : nullptr;
    args.a_scale = setup.round == rounding::GIVEN ? &a_scale : nullptr;
    args.m = setup.m;
    args.out = out.data();
    return args;
}

void fp8_problem::run()
{
    std::fill(out.begin(), out.end(), static_cast<unsigned char>(OUTPUT_FILL));
    const on_device d(*this);
    fp8_gemv gemv = gemv_of(*this, d);
    if (setup.round != rounding::NONE && !gemv.round && setup.k)
        round_first(d, &gemv);
    if (setup.by == way::MMA)
        must(fp8_mma_gemv(&gemv, nullptr), "fp8_mma_gemv");
    else if (setup.by == way::WIDENED)
        run_widened(setup, gemv);
    else
        must(fp8_warp_gemv(&gemv, nullptr), "fp8_warp_gemv");
    d.out.read(out.data());
}

const char *fp8_problem::compare(struct expected &expected)
{
    run();
    const char *bad = compare_tensor(&desc.out, out.data(), &expected, nullptr);
    expected_free(&expected);
    return bad ? bad : compare_untouched(&desc.out, out.data(), nullptr, OUTPUT_FILL);
}

const char *fp8_problem::check()
{
    const tdm_fp8_matmul_args a = args();
    struct expected expected =
        setup.by == way::WIDENED ? reference_fp8_matmul_widened(&desc, &a) : reference_fp8_matmul(&desc, &a);
    return compare(expected);
}

const char *fp8_problem::check_exact(const std::vector<double> &want)
{
    struct expected expected = expected_new(static_cast<int64_t>(want.size()));
    std::copy(want.begin(), want.end(), expected.value);
    return compare(expected);
}

void expect_none(const char *bad, const std::string &label)
{
    expect(!bad, "%s: %s", label.c_str(), bad ? bad : "");
}

void expect_case(const fp8_case &c)
{
    fp8_problem problem(c);
    expect_none(problem.check(), label_of(c));
}
