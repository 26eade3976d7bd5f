/* The scratch of one run in flight. */
#ifndef COMMON_WORKSPACE_H
#define COMMON_WORKSPACE_H

#include "backend.h"

/* Take the workspace for a run: BAD_ARG when it is missing, another op's or in use. */
tdm_status workspace_enter(const tdm_op *op, tdm_workspace *workspace, void **scratch);
void workspace_leave(tdm_workspace *workspace);

#endif
