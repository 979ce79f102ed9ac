/* CPFloat (Fasi & Mikaitis 2023, doi:10.1145/3585515), a library of C headers that no registry has: its user gives the
   source, ./run bench --peer-source DIR. */
#include "cpfloat_binary32.h"

#include <string.h>

/* X = A rounded, by the library's own names of formats' parameters and modes. */
void halfulp_cpfloat(const float* a, float* x, size_t count, int precision, int emin, int emax, int mode) {
  optstruct options;
  memset(&options, 0, sizeof options);
  options.precision = (cpfloat_precision_t)precision;
  options.emin = emin;
  options.emax = emax;
  options.explim = CPFLOAT_EXPRANGE_TARG;
  options.infinity = CPFLOAT_INF_USE;
  options.subnormal = CPFLOAT_SUBN_USE;
  options.round = (cpfloat_rounding_t)mode;
  cpfloatf(x, a, count, &options);
}
