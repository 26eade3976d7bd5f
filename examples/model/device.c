#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tdm_device HOST = {TDM_CPU, 0};

enum { STAGE_BYTES = 8 << 20 };

/* ---- Open and close ---- */

bool device_open(device *d, tdm_ctx *ctx, tdm_device_kind kind, error *err)
{
    tdm_device_info info = TDM_INIT(tdm_device_info);
    *d = (device){.ctx = ctx, .id = {kind, 0}};
    if (!check(err, tdm_device_get(ctx, d->id, &info), "device")) {
        return false;
    }
    if (!info.present) {
        return fail(err, "--device %s: %s", kind == TDM_CUDA ? "cuda" : "cpu", info.reason);
    }
    snprintf(d->name, sizeof d->name, "%s", info.name);
    bool ok = check(err, tdm_stream_create(ctx, d->id, &d->stream), "stream");
    for (int i = 0; ok && i <= MAX_LAPS; i++) {
        ok = check(err, tdm_mark_create(ctx, d->id, &d->marks[i]), "mark");
    }
    return ok;
}

/* ---- Memory ---- */

struct piece {
    tdm_memory kind;
    void *pointer;
};

static bool get(device *d, tdm_memory kind, size_t bytes, const char *what, void **pointer, error *err)
{
    struct piece *pieces = realloc(d->pieces, (d->piece_count + 1) * sizeof *pieces);
    if (pieces == NULL) {
        return fail(err, "%s: no memory", what);
    }
    d->pieces = pieces;
    if (!check(err, tdm_alloc(d->ctx, d->id, kind, bytes, pointer), what)) {
        return false;
    }
    pieces[d->piece_count++] = (struct piece){kind, *pointer};
    return true;
}

bool device_alloc(device *d, size_t bytes, const char *what, void **pointer, error *err)
{
    if (!get(d, TDM_DEVICE_MEMORY, bytes, what, pointer, err)) {
        return false;
    }
    d->bytes += bytes;
    return true;
}

static bool create_stages(device *d, error *err)
{
    bool ok = true;
    for (int i = 0; ok && i < 2 && d->stages[i].bytes == NULL; i++) {
        ok = get(d, TDM_PINNED_HOST, STAGE_BYTES, "staging", &d->stages[i].bytes, err) &&
             check(err, tdm_mark_create(d->ctx, d->id, &d->stages[i].copied), "mark");
    }
    return ok;
}

/* Copy up to STAGE_BYTES to the device as soon as the stage's last copy is done. */
static bool place_part(device *d, const void *values, size_t bytes, void *to, const char *what, error *err)
{
    d->stage = 1 - d->stage;
    const stage *s = &d->stages[d->stage];
    if (!check(err, tdm_mark_sync(s->copied), what)) {
        return false;
    }
    memcpy(s->bytes, values, bytes);
    return check(err, tdm_copy(d->ctx, d->id, to, HOST, s->bytes, bytes, d->stream), what) &&
           check(err, tdm_mark_record(s->copied, d->stream), what);
}

bool device_place(device *d, const void *values, size_t bytes, const char *what, void **pointer, error *err)
{
    if (!device_alloc(d, bytes, what, pointer, err)) {
        return false;
    }
    if (d->id.kind == TDM_CPU) {
        memcpy(*pointer, values, bytes);
        return true;
    }
    bool ok = create_stages(d, err);
    for (size_t at = 0, part; ok && at < bytes; at += part) {
        part = bytes - at < STAGE_BYTES ? bytes - at : STAGE_BYTES;
        ok = place_part(d, (const char *)values + at, part, (char *)*pointer + at, what, err);
    }
    return ok;
}

bool device_workspaces(device *d, tdm_op *const *ops, int count, tdm_workspace **workspaces, error *err)
{
    size_t bytes = 0, most = 0;
    void *memory;
    for (int i = 0; i < count; i++) {
        if (!check(err, tdm_workspace_size(ops[i], &bytes), "workspace")) {
            return false;
        }
        most = bytes > most ? bytes : most;
    }
    if (!device_alloc(d, most, "workspace", &memory, err)) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (!check(err, tdm_workspace_size(ops[i], &bytes), "workspace") ||
            (bytes > 0 && !check(err, tdm_workspace_create(ops[i], memory, most, &workspaces[i]), "workspace"))) {
            return false;
        }
    }
    return true;
}

bool device_buffer(device *d, size_t bytes, buffer *b, error *err)
{
    if (!device_alloc(d, bytes, "activations", &b->there, err)) {
        return false;
    }
    b->host = b->there;
    return d->id.kind == TDM_CPU || get(d, TDM_PINNED_HOST, bytes, "activations", &b->host, err);
}

void device_close(device *d)
{
    if (d->ctx == NULL) {
        return;
    }
    tdm_stream_sync(d->ctx, d->id, d->stream); /* after a failure there may be work that uses the memory */
    for (size_t i = 0; i < d->piece_count; i++) {
        tdm_free(d->ctx, d->id, d->pieces[i].kind, d->pieces[i].pointer);
    }
    for (int i = 0; i <= MAX_LAPS; i++) {
        tdm_mark_destroy(d->marks[i]);
    }
    tdm_mark_destroy(d->stages[0].copied);
    tdm_mark_destroy(d->stages[1].copied);
    tdm_stream_destroy(d->ctx, d->id, d->stream);
    free(d->pieces);
    *d = (device){0};
}

/* ---- The stream ---- */

bool device_start(device *d, error *err)
{
    d->lap_count = 0;
    return check(err, tdm_mark_record(d->marks[0], d->stream), "mark");
}

bool device_lap(device *d, part what, error *err)
{
    d->laps[d->lap_count++] = what;
    return check(err, tdm_mark_record(d->marks[d->lap_count], d->stream), "mark");
}

bool device_send(device *d, const buffer *b, size_t bytes, error *err)
{
    if (b->host == b->there) {
        return true;
    }
    return check(err, tdm_copy(d->ctx, d->id, b->there, HOST, b->host, bytes, d->stream), "copy") &&
           device_lap(d, COPIES_IN, err);
}

bool device_fetch(device *d, const buffer *b, size_t bytes, error *err)
{
    if (b->host == b->there) {
        return true;
    }
    return check(err, tdm_copy(d->ctx, HOST, b->host, d->id, b->there, bytes, d->stream), "copy") &&
           device_lap(d, COPIES_OUT, err);
}

bool device_sync(device *d, error *err)
{
    if (!check(err, tdm_stream_sync(d->ctx, d->id, d->stream), "stream")) {
        return false;
    }
    for (int i = 0; i < d->lap_count; i++) {
        float milliseconds;
        if (!check(err, tdm_mark_elapsed(d->marks[i], d->marks[i + 1], &milliseconds), "mark")) {
            return false;
        }
        d->seconds[d->laps[i]] += milliseconds * 1e-3;
    }
    d->lap_count = 0;
    return true;
}
