/* int8_decode: few queries over INT8 keys and values, scored by integer dots. Approximate: the query is rounded to 8
 * bits. The scores and values are those of gqa_integer.c, all else is as in flash. */
#include "gqa_flash.h"

#include <stdio.h>

enum { MOST_QUERIES = 8 };

static bool half_fits(const char *name, const tdm_tensor *half, char *reason)
{
    if (half->dtype == TDM_I8 && half->scaling != TDM_PER_GROUP)
        return true;
    snprintf(reason, REASON_SIZE, "cache.%s: got %s, want i8 without groups", name,
             half->dtype == TDM_I8 ? "groups" : "another dtype");
    return false;
}

static bool int8_decode_fits(const struct tdm_op *op, char *reason)
{
    const tdm_kv_cache *cache = &op->desc.gqa.cache;
    return half_fits("k", &cache->k, reason) && half_fits("v", &cache->v, reason);
}

static bool int8_decode_takes(const struct tdm_op *op, const tdm_lengths *lengths, char *reason)
{
    (void)op;
    if (lengths->q_len <= MOST_QUERIES)
        return true;
    snprintf(reason, REASON_SIZE, "q_len: got %lld, want at most %d", (long long)lengths->q_len, MOST_QUERIES);
    return false;
}

static tdm_status int8_decode_run(const struct tdm_op *op, const struct run *run)
{
    return gqa_flash_run(op, run, true);
}

const struct impl cpu_gqa_int8_decode = {.name = "int8_decode",
                                         .op = OP_GQA,
                                         .approximate = true,
                                         .fits = int8_decode_fits,
                                         .takes = int8_decode_takes,
                                         .workspace = gqa_flash_workspace,
                                         .run = int8_decode_run};
