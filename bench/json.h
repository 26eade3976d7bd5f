#ifndef BENCH_JSON_H
#define BENCH_JSON_H

/* Print text as a JSON string; NULL as null. */
void json_string(const char *text);

#endif
