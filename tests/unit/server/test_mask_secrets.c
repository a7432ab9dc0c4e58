/* tests/unit/server/test_mask_secrets.c: secrets are masked in what is shown of a job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/query/mask_secrets.h"
#include "tests/unit/test_runner.h"

/* Returns the masked job as text, valid until the next call; 'single quotes' are accepted. */
static const char *masked(const char *job, bool shows_arguments)
{
    static char text[512];
    (void)snprintf(text, sizeof text, "%s", job);
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    json_t *tree = json_loads(text, 0, NULL);
    assert_non_null(tree);
    assert_int_equal(mask_job(tree, shows_arguments), 0);
    char *shown = json_dumps(tree, JSON_COMPACT);
    (void)snprintf(text, sizeof text, "%s", shown);
    free(shown);
    json_decref(tree);
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == '"' ? '\'' : *at;
    }
    return text;
}

TEST(masked, userinfo_and_query_of_a_url_are_hidden)
{
    static const struct {
        const char *url, *shown;
    } cases[] = {
        {"/shared/a@b", "/shared/a@b"},
        {"https://git.example/org/repo.git", "https://git.example/org/repo.git"},
        {"https://deploy:s3cr3t@git.example/org/repo.git", "https://***@git.example/org/repo.git"},
        {"https://s3cr3t@git.example/repo", "https://***@git.example/repo"},
        {"https://a:b@c@git.example/repo", "https://***@git.example/repo"},
        {"http://u:p@[::1]:80/repo", "http://***@[::1]:80/repo"},
        {"https://git.example/r.git?private_token=s3cr3t", "https://git.example/r.git?***"},
        {"ssh://git@git.example/repo", "ssh://git@git.example/repo"},
        {"ssh://git:s3cr3t@git.example/repo", "ssh://***@git.example/repo"},
        {"git@git.example:org/repo.git", "git@git.example:org/repo.git"},
        {"file:///srv/a@b/repo", "file:///srv/a@b/repo"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char job[256];
        char shown[256];
        (void)snprintf(job, sizeof job, "{'source':{'git':'%s','ref':'0123'}}", cases[i].url);
        (void)snprintf(shown, sizeof shown, "{'source':{'git':'%s','ref':'0123'},'env':[]}",
                       cases[i].shown);
        assert_string_equal(masked(job, true), shown);
    }
}

TEST(masked, password_of_the_place_of_artifacts_and_the_command_are_hidden)
{
    const char *job =
        "{'options':{'artifacts':'ftp://me:s3cr3t@host/m','artifacts-command':'cp s'}}";
    assert_string_equal(masked(job, true), "{'options':{'artifacts':'ftp://***@host/m',"
                                           "'artifacts-command':'cp s'},'env':[]}");
    assert_non_null(strstr(masked(job, false), "'artifacts-command':'…'"));
    assert_non_null(strstr(masked("{'options':{'artifacts':'/m'}}", true), "'artifacts':'/m'"));
}

TEST(masked, values_of_variables_are_hidden)
{
    assert_string_equal(masked("{'env':{'A':'s3cr3t','B':''},'source':null}", true),
                        "{'env':['A','B'],'source':null}");
}

TEST(masked, arguments_of_a_command_are_cut_off)
{
    static const struct {
        const char *command, *shown;
    } cases[] = {
        {"'./run'", "'./run'"},
        {"'./run','s'", "'./run','…'"},
        {"'python','train.py'", "'python','train.py'"},
        {"'python','train.py','--password','s3cr3t'", "'python','train.py','…'"},
        {"'/usr/bin/python3.11','-u','train.py','x'", "'/usr/bin/python3.11','-u','train.py','…'"},
        {"'python','-m','trainer.task','--k'", "'python','-m','trainer.task','…'"},
        {"'python','-c','s3cr3t'", "'python','…'"},
        {"'python','--secret','x'", "'python','…'"},
        {"'python','-m'", "'python','…'"},
        {"'sh','-c','TOKEN=s3cr3t python train.py'", "'sh','…'"},
        {"'env','TOKEN=s3cr3t','python'", "'env','…'"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char job[256];
        char shown[256];
        (void)snprintf(job, sizeof job, "{'command':[%s]}", cases[i].command);
        (void)snprintf(shown, sizeof shown, "{'command':[%s],'env':[]}", cases[i].shown);
        assert_string_equal(masked(job, false), shown);
        (void)snprintf(shown, sizeof shown, "{'command':[%s],'env':[]}", cases[i].command);
        assert_string_equal(masked(job, true), shown);
    }
}
