/* tests/unit/server/test_mask_secrets.c: what is shown of a job's source and command. */
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
        const char *command, *shown;
    } cases[] = {
        {"", ""},
        {"./run", "./run"},
        {"./run s", "./run …"},
        {"python train.py", "python train.py"},
        {"python train.py --password s3cr3t", "python train.py …"},
        {"/usr/bin/python3.11 -u train.py x", "/usr/bin/python3.11 -u train.py …"},
        {"python -m trainer.task --k v", "python -m trainer.task …"},
        {"python -c print('s3cr3t')", "python …"},
        {"python --secret x", "python …"},
        {"python -m", "python …"},
        {"sh -c TOKEN=s3cr3t python train.py", "sh …"},
        {"env TOKEN=s3cr3t python train.py", "env …"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char shown[128];
        strcpy(shown, cases[i].command);
        mask_command(shown, sizeof(shown));
        assert_string_equal(shown, cases[i].shown);
    }
}
