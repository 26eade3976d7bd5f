/* unicode.h - code points of UTF-8 text and their classes, whatever the locale. */
#ifndef UNICODE_H
#define UNICODE_H

#include <stddef.h>
#include <stdint.h>

typedef enum char_class { CHAR_LETTER, CHAR_NUMBER, CHAR_SPACE, CHAR_OTHER } char_class;

/* Read the code point at the start of a text of at least one byte; returns its length. A byte that starts no
 * valid sequence counts as one code point of its own, 0xfffd. */
size_t utf8_decode(const unsigned char *text, size_t size, uint32_t *point);

/* The class of a code point: general categories L* and N*, White_Space, and the rest. */
char_class unicode_class(uint32_t point);

#endif
