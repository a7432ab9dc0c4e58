/* tests/unit/server/test_mask_secrets.c: secrets are masked in a job's source and command. */
#include <string.h>

#include "server/query/mask_secrets.h"
#include "tests/unit/test_runner.h"

TEST(masked, userinfo_and_query_of_a_url_are_hidden)
{
    static const struct {
        const char *source, *shown;
    } cases[] = {
        {"", ""},
        {"/shared/a@b", "/shared/a@b"},
        {"https://git.example/org/repo.git@0123", "https://git.example/org/repo.git@0123"},
        {"https://deploy:s3cr3t@git.example/org/repo.git@0123",
         "https://***@git.example/org/repo.git@0123"},
        {"https://s3cr3t@git.example/repo@0123", "https://***@git.example/repo@0123"},
        {"https://a:b@c@git.example/repo@0123", "https://***@git.example/repo@0123"},
        {"http://u:p@[::1]:80/repo@0123", "http://***@[::1]:80/repo@0123"},
        {"https://git.example/r.git?private_token=s3cr3t@0123",
         "https://git.example/r.git?***@0123"},
        {"ssh://git@git.example/repo@0123", "ssh://git@git.example/repo@0123"},
        {"ssh://git:s3cr3t@git.example/repo@0123", "ssh://***@git.example/repo@0123"},
        {"git@git.example:org/repo.git@0123", "git@git.example:org/repo.git@0123"},
        {"file:///srv/a@b/repo@0123", "file:///srv/a@b/repo@0123"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char shown[128];
        mask_source(shown, sizeof(shown), cases[i].source);
        assert_string_equal(shown, cases[i].shown);
    }
    char cut[16];
    mask_source(cut, sizeof(cut), "https://u:p@git.example/repo");
    assert_string_equal(cut, "https://***@git");
}

TEST(masked, arguments_of_a_command_are_cut_off)
{
    static const struct {
        const char *argv[5];
        size_t shown;
    } cases[] = {
        {{NULL}, 0},
        {{"./run"}, 1},
        {{"./run", "s"}, 1},
        {{"python", "train.py"}, 2},
        {{"python", "train.py", "--password", "s3cr3t"}, 2},
        {{"/usr/bin/python3.11", "-u", "train.py", "x"}, 3},
        {{"python", "-m", "trainer.task", "--k"}, 3},
        {{"python", "-c", "print('s3cr3t')"}, 1},
        {{"python", "--secret", "x"}, 1},
        {{"python", "-m"}, 1},
        {{"sh", "-c", "TOKEN=s3cr3t python train.py"}, 1},
        {{"env", "TOKEN=s3cr3t", "python"}, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t n = 0;
        while (n < 5 && cases[i].argv[n]) {
            n++;
        }
        assert_int_equal(masked_words(cases[i].argv, n), cases[i].shown);
    }
}
