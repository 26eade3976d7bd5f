#include "token_runs.h"

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

bool token_runs_next(struct tokens *t, struct token_runs *runs)
{
    runs->count = runs->positions = 0;
    while (t->sequence < t->batch && runs->count < MAX_RUNS) {
        int32_t left = t->length[t->sequence] - t->token;
        int32_t room = t->positions ? least(t->most, MAX_POSITIONS - runs->positions) : t->most;
        if (left > 0 && room == 0)
            break;
        if (left > 0) {
            struct token_run *run = &runs->run[runs->count++];
            *run = (struct token_run){(int32_t)t->sequence, t->token, least(left, room), 0, -1};
            if (t->positions)
                run->given = runs->positions;
            for (int32_t i = 0; i < run->count && t->positions; i++)
                runs->position[runs->positions++] = t->positions[t->sequence * t->stride + t->token + i];
            t->token += run->count;
        }
        if (t->token >= t->length[t->sequence]) {
            t->token = 0;
            t->sequence++;
        }
    }
    return runs->count > 0;
}
