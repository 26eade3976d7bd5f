#include "warp.h"

#include "common/convert.h"

#include <cmath>

namespace shim
{

namespace
{

constexpr int ROWS = 16, COLUMNS = 8, DEPTH = 16;

float element(uint32_t pair, int half, bool is_bf16)
{
    const uint16_t bits = static_cast<uint16_t>(pair >> 16 * half);
    return is_bf16 ? f32_of_bf16(bits) : f32_of_f16(bits);
}

double cut(double x, int exponent)
{
    return std::ldexp(std::trunc(std::ldexp(x, 23 - exponent)), exponent - 23);
}

/* c + the sum of 8 products, every addend and the sum cut to 24 bits. */
double coarse_sum(double c, const double *products)
{
    double largest = std::fabs(c), sum = c;
    for (int k = 0; k < 8; k++) {
        largest = std::fmax(largest, std::fabs(products[k]));
        sum += products[k];
    }
    if (!(largest > 0) || !std::isfinite(sum))
        return sum;
    sum = cut(c, std::ilogb(largest));
    for (int k = 0; k < 8; k++)
        sum += cut(products[k], std::ilogb(largest));
    return sum == 0 ? 0 : cut(sum, std::ilogb(sum));
}

} // namespace

void multiply(warp_words *const *lanes, bool is_bf16, bool coarse)
{
    float a[ROWS][DEPTH], b[DEPTH][COLUMNS];
    for (int lane = 0; lane < WARP_SIZE; lane++) {
        const int g = lane / 4, t = lane % 4;
        for (int half = 0; half < 2; half++) {
            for (int r = 0; r < 4; r++)
                a[g + 8 * (r % 2)][2 * t + 8 * (r / 2) + half] = element(lanes[lane]->in[r], half, is_bf16);
            for (int r = 0; r < 2; r++)
                b[2 * t + 8 * r + half][g] = element(lanes[lane]->in[4 + r], half, is_bf16);
        }
    }
    for (int lane = 0; lane < WARP_SIZE; lane++)
        for (int i = 0; i < 4; i++) {
            const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
            double sum = static_cast<double>(float_of_bits(lanes[lane]->in[6 + i])), products[DEPTH];
            for (int k = 0; k < DEPTH; k++)
                products[k] = static_cast<double>(a[row][k]) * static_cast<double>(b[k][column]);
            if (coarse)
                sum = coarse_sum(coarse_sum(sum, products), products + 8);
            else
                for (const double product : products)
                    sum += product;
            lanes[lane]->out[i] = bits_of_float(static_cast<float>(sum));
        }
}

} // namespace shim
