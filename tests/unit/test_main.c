/* tests/unit/test_main.c: main, for files of stories that have none. */
#include "tests/unit/test_runner.h"

int main(void)
{
    return stories_run(NULL, NULL);
}
