/*
 * Stands in for lb/conn/origdst.c where there is no NAT: every accepted connection was meant for
 * what the test set last.
 */
#ifndef EDGEWAY_TESTS_FAKE_ORIGDST_H
#define EDGEWAY_TESTS_FAKE_ORIGDST_H

#include <stdint.h>

void fake_origdst_set(uint32_t ip, uint16_t port);

#endif
