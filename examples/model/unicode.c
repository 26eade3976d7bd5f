#include "unicode.h"

#include <stdbool.h>

#include "unicode_table.h"

enum { INVALID = 0xfffd };

size_t utf8_decode(const unsigned char *text, size_t size, uint32_t *point)
{
    /* By length: the lead byte's fixed bits, and the smallest code point that needs so many bytes. */
    static const struct {
        unsigned char mask, lead;
        uint32_t smallest;
    } forms[] = {{0, 0, 0}, {0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

    for (size_t length = 1; length <= 4 && length <= size; length++) {
        if ((text[0] & forms[length].mask) != forms[length].lead) {
            continue;
        }
        uint32_t value = text[0] & (unsigned char)~forms[length].mask;
        for (size_t i = 1; i < length; i++) {
            if ((text[i] & 0xc0) != 0x80) {
                *point = INVALID;
                return 1;
            }
            value = value << 6 | (text[i] & 0x3f);
        }
        bool surrogate = value >= 0xd800 && value <= 0xdfff;
        bool valid = value >= forms[length].smallest && value <= 0x10ffff && !surrogate;
        *point = valid ? value : INVALID;
        return valid ? length : 1;
    }
    *point = INVALID;
    return 1;
}

static bool in_ranges(const unicode_range *ranges, size_t count, uint32_t point)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (point > ranges[middle].last) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && point >= ranges[low].first;
}

static bool is_space(uint32_t point)
{
    return (point >= 0x9 && point <= 0xd) || point == 0x20 || point == 0x85 || point == 0xa0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 || point == 0x202f ||
           point == 0x205f || point == 0x3000;
}

char_class unicode_class(uint32_t point)
{
    if (is_space(point)) {
        return CHAR_SPACE;
    }
    if (in_ranges(letters, sizeof letters / sizeof *letters, point)) {
        return CHAR_LETTER;
    }
    return in_ranges(numbers, sizeof numbers / sizeof *numbers, point) ? CHAR_NUMBER : CHAR_OTHER;
}
