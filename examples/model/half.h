/* half.h - arrays of f32 to and from the two 16-bit formats. */
#ifndef HALF_H
#define HALF_H

#include <stdint.h>

#include <tandem.h>

/* Round to nearest even; `dtype` is TDM_F16 or TDM_BF16. */
void narrow(const float *values, int64_t count, tdm_dtype dtype, uint16_t *out);
void widen(const uint16_t *values, int64_t count, tdm_dtype dtype, float *out);

#endif
