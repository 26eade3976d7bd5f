/* upload.h - the weights where matrix products run. */
#ifndef UPLOAD_H
#define UPLOAD_H

#include "device.h"
#include "weights.h"

/* The weights with every matrix but the embedding on the device; the CPU has them in the file. Norms and the
 * embedding stay with the host. `bytes` receives what was copied. The device keeps the memory of the matrices. */
bool upload(weights *placed, const weights *w, const config *cfg, device *d, size_t *bytes, error *err);
void upload_close(weights *placed);

#endif
