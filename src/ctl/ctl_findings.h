/*
 * Prints findings (findings.h): for people, or for programs as
 * {"check","what","verdict","class","found","remedy"}. Texts from a daemon or the machine cannot
 * control the terminal.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_FINDINGS_H
#define EDGEWAY_SRC_CTL_CTL_FINDINGS_H

#include "src/common/ctl_answer.h"
#include "src/common/findings.h"

void findings_print(const struct findings *f, enum ctl_format format);

#endif
