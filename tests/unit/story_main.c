/* tests/unit/story_main.c: main, for files of stories that have none. */
#include "tests/unit/story.h"

int main(void)
{
    return stories_run(NULL, NULL);
}
