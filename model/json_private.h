/*
 * Between json.c (structure) and json_string.c (strings, UTF-8). Like everything of the reader these do
 * nothing once something was wrong.
 */
#ifndef EDGEWAY_MODEL_JSON_PRIVATE_H
#define EDGEWAY_MODEL_JSON_PRIVATE_H

#include "model/json.h"

/* This very byte must come next, or "`what` expected". */
bool json_take(struct json *j, char c, const char *what);
/* A string, decoded to `to` (NULL: only checked); its decoded length. *nul: it holds U+0000. */
size_t json_string(struct json *j, char *to, bool *nul);

#endif
