/*
 * What a service tells the manager that started it: sd_notify(3)'s protocol, datagrams of
 * NAME=VALUE lines to the Unix socket that $NOTIFY_SOCKET names. The protocol is systemd's stable
 * interface and small, so that libsystemd and what it brings along stay out of the daemons. Without
 * the variable nothing is sent: any thread, no state of its own.
 *
 *	notify_send("READY=1\nSTATUS=serves 12 services");
 */
#ifndef EDGEWAY_BASE_OS_NOTIFY_H
#define EDGEWAY_BASE_OS_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does anybody want to be told? */
bool notify_wanted(void);
/* 0 when sent or nobody wants it; else -errno: -EINVAL when $NOTIFY_SOCKET is no such address,
 * -EAGAIN when the manager does not read. Never waits. */
int notify_send(const char *lines);
/* The same with descriptors, at most FDPASS_MOST, which stay the caller's: FDSTORE=1. */
int notify_send_fds(const char *lines, const int *fds, size_t n);
/* The manager restarts us after so many ms without WATCHDOG=1 ($WATCHDOG_USEC, $WATCHDOG_PID); 0:
 * it does not watch. */
uint64_t notify_watchdog_ms(void);

#endif
