/* usage: shim_check [GROUP...]        all groups unless told
 *        shim_check --fault FAULT     must not end well */
#include "shim_check.h"

#include <cstring>

int main(int argc, char **argv)
{
    static const check_group groups[] = {
        {"e4m3", check_e4m3},
        {"16_bits", check_16_bits},
        {"byte_perm", check_byte_perm},
        {"mma_layout", check_mma_layout},
        {"mma_sums", check_mma_sums},
        {"orders", check_orders},
        {"block_sum", check_block_sum},
        {"shuffles", check_shuffles},
        {"limits", check_limits},
        {"host_threads", check_host_threads},
        {"misuse", check_misuse},
        {"streams", check_streams},
        {"graphs", check_graphs},
        {"events", check_events},
        {"captured_events", check_captured_events},
        {"memory", check_memory},
        {"host_memory", check_host_memory},
        {"devices", check_devices},
        {"errors", check_errors},
        {"blas", check_blas},
    };
    if (argc == 3 && !strcmp(argv[1], "--fault"))
        return !commit_fault(argv[2]);
    return kernel_check(groups, argc, argv);
}
