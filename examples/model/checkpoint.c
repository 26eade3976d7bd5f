#include "checkpoint.h"

static bool open_vocabulary(checkpoint *c, error *err)
{
    const int64_t any = -1;
    const st_tensor *tokens, *merges, *types;
    return (tokens = st_require(&c->file, "tokenizer.tokens", ST_U8, 1, &any, err)) != NULL &&
           (merges = st_require(&c->file, "tokenizer.merges", ST_U8, 1, &any, err)) != NULL &&
           (types = st_require(&c->file, "tokenizer.token_types", ST_U8, 1, &c->cfg.vocab, err)) != NULL &&
           vocabulary_open(&c->vocab, tokens->data, tokens->bytes, merges->data, merges->bytes, types->data,
                           types->bytes, err);
}

static bool open_parts(checkpoint *c, error *err)
{
    if (config_read(&c->cfg, &c->file, err) && open_vocabulary(c, err) &&
        weights_open(&c->weights, &c->cfg, &c->file, err)) {
        return true;
    }
    checkpoint_close(c);
    return false;
}

bool checkpoint_open(checkpoint *c, const char *path, error *err)
{
    error why;
    *c = (checkpoint){0};
    if (st_open(&c->file, path, &why) && open_parts(c, &why)) {
        return true;
    }
    return fail(err, "%.160s: %.340s", path, why.text);
}

bool checkpoint_open_memory(checkpoint *c, const void *bytes, size_t size, error *err)
{
    *c = (checkpoint){0};
    return st_open_memory(&c->file, bytes, size, err) && open_parts(c, err);
}

void checkpoint_close(checkpoint *c)
{
    weights_close(&c->weights);
    vocabulary_close(&c->vocab);
    st_close(&c->file);
}
