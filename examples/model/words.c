/* Cutting text into words: the regular expression of GPT-2, after every number character was cut off alone.
 *
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
#include <string.h>

#include "tokenizer.h"
#include "unicode.h"

/* The class of the character at an offset. A number ends the stretch of text that the expression sees, as the
 * end of the text does. */
static char_class class_at(const unsigned char *text, size_t size, size_t offset, size_t *length)
{
    uint32_t point;
    *length = 0;
    if (offset == size) {
        return CHAR_NUMBER;
    }
    *length = utf8_decode(text + offset, size - offset, &point);
    return unicode_class(point);
}

static size_t contraction(const unsigned char *text, size_t size)
{
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t length = strlen(endings[i]);
        if (length <= size && memcmp(text, endings[i], length) == 0) {
            return length;
        }
    }
    return 0;
}

/* A run of white space. Where a word follows, the last character is left to it: "\s+(?!\S)" gives one back. */
static size_t spaces(const unsigned char *text, size_t size)
{
    size_t end = 0, last = 0, length;
    char_class next;
    while ((next = class_at(text, size, end, &length)) == CHAR_SPACE) {
        last = end;
        end += length;
    }
    return next == CHAR_NUMBER || last == 0 ? end : last;
}

size_t first_word(const unsigned char *text, size_t size)
{
    size_t length = contraction(text, size);
    if (length > 0) {
        return length;
    }
    size_t start = text[0] == ' ' ? 1 : 0;
    char_class class = class_at(text, size, start, &length);
    if (class == CHAR_SPACE || (class == CHAR_NUMBER && start == 1)) {
        return spaces(text, size);
    }
    if (class == CHAR_NUMBER) {
        return length;
    }
    size_t end = start;
    while (class_at(text, size, end, &length) == class) {
        end += length;
    }
    return end;
}
