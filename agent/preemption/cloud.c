/* agent/preemption/cloud.c: firmware marks by which the clouds document how to
 * detect their machines. */
#include "agent/preemption/cloud.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Beginning of a file's text, compared without regard to case. */
static const struct {
    enum notice_from cloud;
    const char *file;
    const char *text;
} marks[] = {
    {FROM_AWS, "class/dmi/id/sys_vendor", "Amazon EC2"},
    {FROM_AWS, "class/dmi/id/board_asset_tag", "i-"},
    {FROM_AWS, "hypervisor/uuid", "ec2"}, /* Xen */
    {FROM_GCE, "class/dmi/id/product_name", "Google"},
    /* The vendor is that of every Hyper-V; the tag is specific to Azure. */
    {FROM_AZURE, "class/dmi/id/chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"},
};

enum notice_from cloud_find(const char *sys)
{
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        char path[256];
        char text[64];
        snprintf(path, sizeof path, "%s/%s", sys, marks[i].file);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
        if (fd >= 0) {
            close(fd);
        }
        if (n >= (ssize_t)strlen(marks[i].text) &&
            strncasecmp(text, marks[i].text, strlen(marks[i].text)) == 0) {
            return marks[i].cloud;
        }
    }
    return FROM__COUNT;
}
