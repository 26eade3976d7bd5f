/* half.h - arrays of f32 to and from what ops take. */
#ifndef HALF_H
#define HALF_H

#include <stdint.h>

#include <tandem.h>

/* Round to nearest even where `dtype` is TDM_F16 or TDM_BF16; with TDM_F32 copy. */
void narrow(const float *values, int64_t count, tdm_dtype dtype, void *out);
void widen(const void *values, int64_t count, tdm_dtype dtype, float *out);

#endif
