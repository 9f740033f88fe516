/*
 * Checks that the kernel supports the agent's rules. A transaction that would create a table with a
 * chain of type nat is sent without its end, so that the kernel validates it (and loads its
 * modules) and then drops it, as for `nft --check`.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_KERNEL_H
#define EDGEWAY_SRC_CTL_CTL_KERNEL_H

/* 0; -EPERM: not permitted for this user; another -errno: the kernel's result. */
int kernel_try_nat(void);

#endif
