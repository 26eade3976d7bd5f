#include "device.h"

#include "common/backend.h"
#include "stats.h"
#include "tests/reference/tensor.h"
#include "turns.h"

#include <math.h>
#include <string.h>

#define HOST ((tdm_device){TDM_CPU, 0})
#define UNKNOWN_CACHE (INT64_C(32) << 20)
#define VENDOR_ELEMENT 2 /* bytes of an f16 */

static double seconds[MAX_REPEATS];

int64_t device_cache(const tdm_device_info *info)
{
    int64_t largest = info->cache[2] > info->cache[1] ? info->cache[2] : info->cache[1];
    return largest ? largest : UNKNOWN_CACHE;
}

static struct turns turns_of(const struct session *session)
{
    return (struct turns){
        .ctx = session->ctx, .device = session->device, .stream = session->stream, .copies = 1, .warmup = 3};
}

static double median_of(const struct turns *turns)
{
    const char *how;
    int n = turns_time(turns, seconds, &how);
    return n ? stats_of(seconds, n).median : NAN;
}

static tdm_status get(const struct session *session, size_t bytes, void **pointer)
{
    return tdm_alloc(session->ctx, session->device, TDM_DEVICE_MEMORY, bytes, pointer);
}

static void give(const struct session *session, void *pointer)
{
    if (pointer)
        tdm_free(session->ctx, session->device, TDM_DEVICE_MEMORY, pointer);
}

/* ---- copies -------------------------------------------------------------------- */

struct transfer {
    const struct session *session;
    void *to, *from;
    size_t bytes;
};

static tdm_status transfer(const void *arg, void *stream, int copy)
{
    const struct transfer *t = arg;
    (void)copy;
    return tdm_copy(t->session->ctx, t->session->device, t->to, t->session->device, t->from, t->bytes, stream);
}

double device_copy_gb_per_s(const struct session *session, const tdm_device_info *info)
{
    static double known;
    if (known > 0)
        return known;
    struct transfer t = {.session = session, .bytes = 4 * (size_t)device_cache(info)};
    struct turns turns = turns_of(session);
    turns.enqueue = transfer;
    turns.arg = &t;
    turns.repeat = 20;
    if (!get(session, t.bytes, &t.to) && !get(session, t.bytes, &t.from)) {
        double median = median_of(&turns);
        known = isnan(median) ? 0 : 2 * (double)t.bytes / median * 1e-9;
    }
    give(session, t.from);
    give(session, t.to);
    return known;
}

/* ---- the vendor's product --------------------------------------------------------- */

struct vendor {
    const struct tdm_op *op; /* of ours: its backend and the backend's state */
    void *handle;
    struct vendor_product product; /* b: of the first copy */
    size_t weight_bytes;
};

static tdm_status multiply(const void *arg, void *stream, int copy)
{
    const struct vendor *v = arg;
    struct vendor_product product = v->product;
    product.b = (const char *)product.b + v->weight_bytes * (size_t)copy;
    return v->op->backend->vendor->multiply(v->op->state, v->op->device.index, v->handle, &product, stream);
}

/* Numbers in [-1, 1]: a device may run faster on zeros. */
static tdm_status fill(const struct session *session, char *memory, size_t bytes)
{
    static uint16_t pattern[1 << 16];
    struct random random = {1};
    tdm_tensor tensor = tensor2(TDM_F16, 1, sizeof pattern / VENDOR_ELEMENT);
    random_fill(&tensor, pattern, 1, &random);
    tdm_status status = TDM_OK;
    for (size_t at = 0; at < bytes && !status; at += sizeof pattern)
        status = tdm_copy(session->ctx, session->device, memory + at, HOST, pattern,
                          bytes - at < sizeof pattern ? bytes - at : sizeof pattern, session->stream);
    return status ? status : tdm_stream_sync(session->ctx, session->device, session->stream);
}

/* a, the copies of b and out lie in one piece of memory, each on a line of its own. */
static double time_product(const struct session *session, struct vendor *v, int copies, int64_t repeat)
{
    struct vendor_product *p = &v->product;
    size_t line = 256, a = (size_t)(p->m * p->k * VENDOR_ELEMENT + 255) / line * line;
    v->weight_bytes = ((size_t)(p->n * p->k * VENDOR_ELEMENT) + line - 1) / line * line;
    size_t inputs = a + v->weight_bytes * (size_t)copies, all = inputs + (size_t)(p->m * p->n * VENDOR_ELEMENT);
    void *memory = NULL;
    struct turns turns = turns_of(session);
    turns.copies = copies;
    turns.enqueue = multiply;
    turns.arg = v;
    turns.repeat = repeat;
    double median = NAN;
    if (!get(session, all, &memory) && !fill(session, memory, inputs)) {
        p->a = memory;
        p->b = (char *)memory + a;
        p->out = (char *)memory + inputs;
        median = median_of(&turns);
        tdm_stream_sync(session->ctx, session->device, session->stream);
    }
    give(session, memory);
    return median;
}

static double missing(const char *why)
{
    static bool said;
    if (!said)
        fprintf(stderr, "tandem bench: vendor_us: %s\n", why);
    said = true;
    return NAN;
}

double device_vendor_us(const struct session *session, const struct job *job, const tdm_device_info *info)
{
    const struct fp8_shape *s = &job->fp8;
    struct vendor v = {.op = session->op, .product = {.m = s->m, .n = s->n, .k = s->k}};
    const struct vendor_calls *calls = v.op->backend->vendor;
    if (!calls)
        return missing("the backend has no product of its vendor's");
    if (calls->open(v.op->state, v.op->device.index, &v.handle))
        return missing(tdm_last_error());
    int64_t bytes = s->n * s->k * VENDOR_ELEMENT + 1;
    int copies = job->value[OPTION_COLD] ? 2 + (int)(2 * device_cache(info) / bytes) : 1;
    double median = time_product(session, &v, copies, job->value[OPTION_REPEAT]);
    calls->close(v.op->state, v.op->device.index, v.handle);
    return isnan(median) ? missing(tdm_last_error()) : median * 1e6;
}
