/* What a device's runs are measured against: its own copies, and its vendor's matrix product. */
#ifndef BENCH_DEVICE_H
#define BENCH_DEVICE_H

#include "session.h"

/* Bytes read and written per second by a copy of four times the last cache; measured once, then remembered. 0 after a
 * failure. */
double device_copy_gb_per_s(const struct session *session, const tdm_device_info *info);

/* Median time of the vendor's f16 product of the shape, with the weights in memory or, `cold`, out of the caches. NAN,
 * the first time with a message on stderr, where the vendor's library is absent. */
double device_vendor_us(const struct session *session, const struct job *job, const tdm_device_info *info);

/* The largest cache, in bytes. */
int64_t device_cache(const tdm_device_info *info);

#endif
