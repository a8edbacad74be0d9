/* Stands in for NVIDIA's driver library. STAND_IN_GPUS lists "model:MiB" separated by ";";
   a model called "lost" answers as a GPU that fell off the bus. */
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 2, GPU_IS_LOST = 15 };
typedef struct { unsigned long long total, free, used; } Memory;
static char models[64][96];
static unsigned long long memories[64];
static unsigned count;

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    const char *list = getenv("STAND_IN_GPUS");
    count = 0;
    while (list && *list && count < 64) {
        size_t length = strcspn(list, ":");
        memcpy(models[count], list, length);
        models[count][length] = 0;
        memories[count++] = strtoull(list + length + 1, NULL, 10);
        list += strcspn(list, ";");
        list += *list == ';';
    }
    return OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == GPU_IS_LOST ? "GPU is lost" : "error"; }
int nvmlDeviceGetCount_v2(unsigned *found) { *found = count; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index >= count) return INVALID;
    *device = (void *)(size_t)(index + 1);
    return strcmp(models[index], "lost") ? OK : GPU_IS_LOST;
}
int nvmlDeviceGetName(void *device, char *name, unsigned length) {
    strncpy(name, models[(size_t)device - 1], length);
    return OK;
}
int nvmlDeviceGetMemoryInfo(void *device, Memory *memory) {
    memory->total = memory->free = memories[(size_t)device - 1] << 20;
    memory->used = 0;
    return OK;
}
