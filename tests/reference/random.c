#include "random.h"

#include "formats.h"
#include "tensor.h"

uint64_t random_bits(struct random *random)
{
    uint64_t z = random->state += 0x9E3779B97F4A7C15; /* splitmix64 (Steele, Lea and Flood, 2014) */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
}

double random_unit(struct random *random)
{
    return (double)(int64_t)random_bits(random) * 0x1p-63;
}

int64_t random_below(struct random *random, int64_t n)
{
    return (int64_t)(random_bits(random) % (uint64_t)n);
}

static double random_element(tdm_dtype dtype, double magnitude, struct random *random)
{
    switch (dtype) {
    case TDM_I8:
        return (double)random_below(random, 256) - 128;
    case TDM_I4:
        return (double)random_below(random, 16) - 8;
    default:
        return magnitude * random_unit(random);
    }
}

void random_fill(const tdm_tensor *tensor, void *data, double magnitude, struct random *random)
{
    int64_t channels = tensor_dim(tensor, 0);
    for (int64_t b = 0; b < tensor_dim(tensor, 3); b++)
        for (int64_t h = 0; h < tensor_dim(tensor, 2); h++)
            for (int64_t r = 0; r < tensor_dim(tensor, 1); r++) {
                void *row = tensor_row(tensor, data, b, h, r);
                for (int64_t c = 0; c < channels; c++)
                    format_encode(tensor->dtype, row, c, random_element(tensor->dtype, magnitude, random));
                if (tensor->dtype == TDM_I4 && channels % 2)
                    format_encode(TDM_I4, row, channels, 0);
            }
}

void random_scales(float *scale, int64_t n, double magnitude, struct random *random)
{
    for (int64_t i = 0; i < n; i++) {
        double x = random_unit(random);
        scale[i] = (float)(magnitude * (x < 0 ? x / 2 - 0.5 : x / 2 + 0.5));
    }
}
