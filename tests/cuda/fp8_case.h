/* One fp8_matmul by the launchers of cuda/, against its reference. */
#ifndef TESTS_CUDA_FP8_CASE_H
#define TESTS_CUDA_FP8_CASE_H

#include "cuda/fp8_matmul.h"

extern "C" {
#include "tests/reference/reference.h"
}

#include <string>
#include <vector>

/* WIDENED: exponents, dequantize and finish around a product on the host, in tiles. */
enum class way { MMA, WARP, WARP_BYTES, WIDENED };
enum class rounding { NONE, GIVEN, OF_ROWS };

struct fp8_case {
    way by = way::MMA;
    tdm_dtype dtype = TDM_F16, scale_dtype = TDM_F32;
    int64_t m = 1, n = 16, k = 256, block_n = 1, block_k = 64;
    rounding round = rounding::NONE;
    bool bias = false, strided = false;
    double scale_size = 0.01;
    uint64_t seed = 1;
    int multiprocessors = 4;
    int64_t tile_columns = 40, tile_rows = 7; /* of the widened product: more than one in most cases */
};

std::string label_of(const fp8_case &c);

/* The case's data on the host, random but for what a test changes, and the run. */
class fp8_problem
{
  public:
    explicit fp8_problem(const fp8_case &c);

    fp8_case setup;
    tdm_fp8_matmul_desc desc;
    std::vector<unsigned char> a, b, b_scale, bias, out;
    float a_scale;

    void put_a(int64_t m, int64_t k, double x);
    void put_b(int64_t n, int64_t k, uint8_t code);

    /* Run on the device; NULL, or what is wrong with the output. */
    const char *check();

    /* The same where the outputs are known, dense, without any error. */
    const char *check_exact(const std::vector<double> &want);

  private:
    void run();
    const char *compare(struct expected &expected);
    tdm_fp8_matmul_args args();
};

/* Run a case; count and print what is wrong. */
void expect_case(const fp8_case &c);
void expect_none(const char *bad, const std::string &label);

#endif
