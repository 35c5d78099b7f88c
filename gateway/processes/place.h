/* place -- names a data folder during one boot of the machine.
 *
 * Shape:    DATA/place holds the boot's id and a random name, a new one after each boot.  So what
 *           was begun at the place of that name has left its trace in this folder, if it began:
 *           nothing that was written there since is lost, which a boot does not promise.
 * Thread:   any.
 * Errors:   "" when that cannot be known.
 */
#ifndef GATEWAY_PROCESSES_PLACE_H
#define GATEWAY_PROCESSES_PLACE_H

#define PLACE_LEN 16 /* hexadecimal digits */

/* Makes it, if it is not there. */
void place_read(const char *data, char ret[PLACE_LEN + 1]);

#endif
