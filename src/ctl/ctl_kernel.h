/*
 * Has the kernel what the agent's rules need? A transaction that would make a table with a chain of
 * type nat is sent and left without its end, so that the kernel looks it over (and loads its
 * modules) and then forgets it, as `nft --check` does it.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_KERNEL_H
#define EDGEWAY_SRC_CTL_CTL_KERNEL_H

/* 0; -EPERM: this user may not ask; another -errno: as the kernel says. */
int kernel_try_nat(void);

#endif
