/*
 * Notifies the service manager: sd_notify(3)'s protocol, datagrams of NAME=VALUE lines to the Unix
 * socket that $NOTIFY_SOCKET names. The protocol is small and a stable interface of systemd, so the
 * daemons do without libsystemd and its dependencies. Without the variable nothing is sent. Any
 * thread; no state.
 *
 *	notify_send("READY=1\nSTATUS=serves 12 services");
 */
#ifndef EDGEWAY_BASE_OS_NOTIFY_H
#define EDGEWAY_BASE_OS_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is there a manager to notify? */
bool notify_wanted(void);
/* 0 when sent or when there is no manager; else -errno: -EINVAL when $NOTIFY_SOCKET is not a valid
 * address, -EAGAIN when the manager does not read. Never blocks. */
int notify_send(const char *lines);
/* The same with descriptors (FDSTORE=1), at most FDPASS_MOST, which stay the caller's. */
int notify_send_fds(const char *lines, const int *fds, size_t n);
/* The manager restarts us after so many ms without WATCHDOG=1 ($WATCHDOG_USEC, $WATCHDOG_PID); 0:
 * there is no watchdog. */
uint64_t notify_watchdog_ms(void);

#endif
