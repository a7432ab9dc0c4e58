/* tests/unit/job/test_tfjob.c: Kubeflow manifests: fields and values of real files, their
 * translation, and refusals that name the field. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ctl/jobs/job_text.h"
#include "tests/unit/job/parse_fixture.h"
#include "tests/unit/test_runner.h"

static int done(void **state)
{
    reading_done();
    return 0;
}
#define FIXTURE NULL, done

/* A pod with one container, as written after a replica's "template: ". */
#define POD_WITH(more)                                                                             \
    "{spec: {containers: [{name: tensorflow, image: org/x:1, command: [python, t.py]" more "}]}}"
#define POD POD_WITH("")
#define HEAD "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: j}\nspec:\n"

TEST_IN(tfjob, whose_name_is_made_tells_what_it_begins_with)
{
#define NAMED(metadata)                                                                            \
    "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {" metadata "}\nspec:\n"                  \
    "  {tfReplicaSpecs: {Worker: {template: " POD "}}}\n"
    const json_t *job = reads(NAMED("generateName: mnist-"));
    assert_true(has(job, "generate_name", "'mnist-'"));
    assert_true(has(job, "name", "null"));
    assert_true(has(reads(NAMED("name: , generateName: mnist-")), "generate_name", "'mnist-'"));
    job = reads(NAMED("name: j, generateName: mnist-"));
    assert_true(has(job, "name", "'j'"));
    assert_true(has(job, "generate_name", "null"));
#undef NAMED
}

TEST_IN(tfjob, parameter_servers_and_workers)
{
    const json_t *job = reads("apiVersion: kubeflow.org/v1\n"
                              "kind: TFJob\n"
                              "metadata:\n"
                              "  name: dist-mnist\n"
                              "  namespace: kubeflow\n"
                              "spec:\n"
                              "  runPolicy:\n"
                              "    cleanPodPolicy: None\n"
                              "  tfReplicaSpecs:\n"
                              "    PS:\n"
                              "      replicas: 2\n"
                              "      restartPolicy: OnFailure\n"
                              "      template:\n"
                              "        metadata:\n"
                              "          annotations:\n"
                              "            sidecar.istio.io/inject: \"false\"\n"
                              "        spec:\n"
                              "          containers:\n"
                              "          - name: tensorflow\n"
                              "            image: org/mnist:1\n"
                              "            command:\n"
                              "            - python\n"
                              "            - -m\n"
                              "            - trainer.task\n"
                              "            - --batch_size=32\n"
                              "            ports:\n"
                              "            - {containerPort: 2222, name: tfjob-port}\n"
                              "    Worker:\n"
                              "      replicas: 4\n"
                              "      restartPolicy: OnFailure\n"
                              "      template:\n"
                              "        spec:\n"
                              "          containers:\n"
                              "          - name: tensorflow\n"
                              "            image: org/mnist:1\n"
                              "            command: [python, -m, trainer.task, --batch_size=32]\n"
                              "            resources:\n"
                              "              limits:\n"
                              "                nvidia.com/gpu: 1\n");
    assert_true(has(job, "name", "'dist-mnist'"));
    assert_true(has(job, "workers", "{'min':4,'max':4}"));
    assert_true(has(job, "ps", "2"));
    assert_true(has(job, "chief", "false"));
    assert_true(has(job, "evaluator", "false"));
    assert_true(has(job, "command", "['python','-m','trainer.task','--batch_size=32']"));
    assert_true(has(job, "role_labels", "{'worker':{'nvidia.com/gpu':'1'}}"));
    assert_true(has(job, "restart_policy", "'OnFailure'"));
    assert_true(has(job, "clean_policy", "'None'"));
    assert_true(has(job, "environment", "'kubeflow'"));
    assert_string_equal(
        reading_warned(),
        "image org/mnist:1 runs only on nodes started with --runtime; other nodes run the command "
        "without it");
    assert_true(has(job, "image", "'org/mnist:1'"));
}

TEST_IN(tfjob, all_roles_and_policies)
{
    const json_t *job = reads(
        HEAD "  successPolicy: AllWorkers\n"
             "  runPolicy: {cleanPodPolicy: All, backoffLimit: 4, activeDeadlineSeconds: 7200,\n"
             "    ttlSecondsAfterFinished: 600, suspend: true}\n"
             "  tfReplicaSpecs:\n"
             "    Chief: {replicas: 1, restartPolicy: ExitCode, template: " POD "}\n"
             "    Worker: {replicas: 3, restartPolicy: ExitCode, template: " POD "}\n"
             "    PS: {replicas: 2, restartPolicy: ExitCode, template: " POD "}\n"
             "    Evaluator: {restartPolicy: ExitCode, template: " POD "}\n");
    assert_true(has(job, "workers", "{'min':3,'max':3}"));
    assert_true(has(job, "ps", "2"));
    assert_true(has(job, "chief", "true"));
    assert_true(has(job, "evaluator", "true"));
    assert_true(has(job, "success_policy", "'AllWorkers'"));
    assert_true(has(job, "clean_policy", "'All'"));
    assert_true(has(job, "backoff_limit", "4"));
    assert_true(has(job, "active_deadline_s", "7200"));
    assert_true(has(job, "ttl_after_finished_s", "600"));
    assert_true(has(job, "suspend", "true"));
    assert_true(has(job, "restart_policy", "'ExitCode'"));
    assert_true(has(job, "environment", "'kubeflow'"));
}

TEST_IN(tfjob, each_replica_has_its_own_restart_policy)
{
    const json_t *job = reads(HEAD "  tfReplicaSpecs:\n"
                                   "    PS: {restartPolicy: Always, template: " POD "}\n"
                                   "    Worker: {restartPolicy: ExitCode, template: " POD "}\n"
                                   "    Chief: {template: " POD "}\n");
    assert_true(has(job, "restart_policy", "{'ps':'Always','worker':'ExitCode','chief':'Never'}"));
    /* A single replica is a worker, and its policy is that of the whole job. */
    job = reads(HEAD "  tfReplicaSpecs: {Chief: {restartPolicy: ExitCode, template: " POD "}}\n");
    assert_true(has(job, "restart_policy", "'ExitCode'"));
}

/* The examples of Kubeflow's training operator (examples/tensorflow), with their fields and
 * values. */
TEST_IN(tfjob, kubeflows_own_examples)
{
    const json_t *job = reads("apiVersion: \"kubeflow.org/v1\"\nkind: TFJob\n"
                              "metadata: {name: tfjob-simple, namespace: kubeflow}\n"
                              "spec:\n  tfReplicaSpecs:\n    Worker:\n      replicas: 2\n"
                              "      restartPolicy: OnFailure\n      template:\n        spec:\n"
                              "          containers:\n            - name: tensorflow\n"
                              "              image: docker.io/kubeflowkatib/tf-mnist:latest\n"
                              "              command:\n              - \"python\"\n"
                              "              - \"/opt/tf-mnist/mnist.py\"\n"
                              "              - \"--epochs=1\"\n");
    assert_true(has(job, "workers", "{'min':2,'max':2}"));
    assert_true(has(job, "restart_policy", "'OnFailure'"));
    assert_true(has(job, "command", "['python','/opt/tf-mnist/mnist.py','--epochs=1']"));
#define VOLUMES                                                                                    \
    ", volumeMounts: [{mountPath: /train, name: training}]}],\n"                                   \
    "  volumes: [{name: training, persistentVolumeClaim: {claimName: tfevent-volume}}]}}"
    static const struct {
        const char *text, *part;
    } others[] = {
        /* dist-mnist, estimator-API: the programs are inside their images. */
        {HEAD "  tfReplicaSpecs:\n"
              "    PS: {replicas: 2, restartPolicy: Never, template: {spec: {containers: [\n"
              "      {name: tensorflow, image: kubeflow/tf-dist-mnist-test:1.0}]}}}\n"
              "    Worker: {replicas: 4, restartPolicy: Never, template: {spec: {containers: [\n"
              "      {name: tensorflow, image: kubeflow/tf-dist-mnist-test:1.0}]}}}\n",
         "spec.tfReplicaSpecs.PS: template.spec.containers[0]: command: missing (the entry "
         "point of the image"},
        {HEAD "  runPolicy: {cleanPodPolicy: None}\n  tfReplicaSpecs:\n"
              "    Worker: {replicas: 3, restartPolicy: Never, template: {\n"
              "      metadata: {annotations: {scheduling.k8s.io/group-name: \"d\"}},\n"
              "      spec: {containers: [{name: tensorflow, image: gcr.io/x/worker:1}]}}}\n",
         "command: missing"},
        /* mnist_with_summaries, keras-API: their volumes exist only in a cluster. */
        {HEAD "  runPolicy: {cleanPodPolicy: None}\n  tfReplicaSpecs:\n"
              "    Worker: {replicas: 1, restartPolicy: Never, template: {spec: {containers: [\n"
              "      {name: tensorflow, image: gcr.io/x:1, command: [python, /var/m.py]" VOLUMES
              "}\n",
         "template.spec.volumes is not supported: nodes do not mount volumes"},
        {HEAD "  runPolicy: {cleanPodPolicy: None}\n  tfReplicaSpecs:\n"
              "    Worker: {replicas: 2, restartPolicy: Never, template: {spec: {containers: [\n"
              "      {name: tensorflow, image: x:1, resources: {limits: {nvidia.com/gpu: "
              "1}}" VOLUMES "}\n",
         "template.spec.volumes is not supported: nodes do not mount volumes"},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_true(is_refused(others[i].text, others[i].part));
    }
}

TEST_IN(tfjob, what_is_not_said_has_kubeflows_default)
{
    const json_t *job = reads(HEAD "  tfReplicaSpecs: {Worker: {template: " POD "}}\n");
    assert_true(has(job, "workers", "{'min':1,'max':1}"));
    assert_true(has(job, "restart_policy", "'Never'"));
    assert_true(has(job, "clean_policy", "'Running'"));
    assert_true(has(job, "success_policy", "'Default'"));
    assert_true(has(job, "backoff_limit", "null"));
    assert_true(has(job, "suspend", "false"));
    job = reads(HEAD "  successPolicy: ''\n  tfReplicaSpecs: {worker: {template: " POD "}}\n");
    assert_true(has(job, "success_policy", "'Default'"));
}

TEST_IN(tfjob, older_versions_have_policies_beside_replicas)
{
    const json_t *job =
        reads("apiVersion: kubeflow.org/v1beta2\nkind: TFJob\nmetadata: {name: j}\nspec:\n"
              "  cleanPodPolicy: All\n  backoffLimit: 1\n"
              "  tfReplicaSpecs: {Worker: {replicas: 2, template: " POD "}}\n");
    assert_true(has(job, "clean_policy", "'All'"));
    assert_true(has(job, "backoff_limit", "1"));
    job = reads("apiVersion: kubeflow.org/v1alpha2\nkind: TFJob\nmetadata: {name: j}\nspec:\n"
                "  ttlSecondsAfterFinishing: 5\n"
                "  tfReplicaSpecs: {Worker: {replicas: 2, template: " POD "}}\n");
    assert_true(has(job, "ttl_after_finished_s", "5"));
    assert_true(is_refused(HEAD "  backoffLimit: 1\n  runPolicy: {backoffLimit: 2}\n"
                                "  tfReplicaSpecs: {Worker: {template: " POD "}}\n",
                           "spec.runPolicy.backoffLimit: this policy is given twice"));
}

#define LIST "apiVersion: kubeflow.org/v1alpha1\nkind: TFJob\nmetadata: {name: old}\nspec:\n"

TEST_IN(tfjob, the_old_list_with_a_master)
{
    const json_t *job =
        reads(LIST "  replicaSpecs:\n"
                   "  - replicas: 1\n    tfReplicaType: MASTER\n    template: " POD
                   "\n  - replicas: 2\n    tfReplicaType: WORKER\n    template: " POD
                   "\n  - replicas: 3\n    tfReplicaType: PS\n    template: " POD "\n");
    assert_true(has(job, "workers", "{'min':2,'max':2}"));
    assert_true(has(job, "ps", "3"));
    assert_true(has(job, "chief", "true"));
    assert_true(has(job, "environment", "'kubeflow-master'"));
    assert_true(has(job, "restart_policy", "'OnFailure'"));
}

TEST_IN(tfjob, an_old_job_ends_with_its_chief)
{
    const char worker[] =
        LIST "  terminationPolicy: {chief: {replicaName: WORKER, replicaIndex: 0}}\n"
             "  replicaSpecs: [{replicas: 2, tfReplicaType: WORKER, template: " POD "}]\n";
    assert_true(has(reads(worker), "workers", "{'min':2,'max':2}"));
    assert_true(is_refused(
        LIST "  terminationPolicy: {chief: {replicaName: WORKER, replicaIndex: 1}}\n"
             "  replicaSpecs: [{replicas: 2, tfReplicaType: WORKER, template: " POD "}]\n",
        "spec.terminationPolicy is not supported: a job with these roles ends when Worker 0"));
    assert_true(is_refused(LIST
                           "  terminationPolicy: {chief: {replicaName: WORKER, replicaIndex: 0}}\n"
                           "  replicaSpecs: [{template: " POD "},\n"
                           "    {tfReplicaType: WORKER, template: " POD "}]\n",
                           "Master 0"));
}

TEST_IN(tfjob, a_chief_alone_is_a_worker_with_its_labels)
{
    const json_t *job = reads(LIST "  replicaSpecs: [{template: " POD_WITH(
        ", resources: {requests: {cpu: 500m}, limits: {cpu: '1', memory: 2Gi}}") "}]\n");
    assert_true(has(job, "workers", "{'min':1,'max':1}"));
    assert_true(has(job, "chief", "false"));
    assert_true(has(job, "environment", "'kubeflow'"));
    /* Requests count; a limit counts if there is no request. */
    assert_true(has(job, "role_labels", "{'worker':{'cpu':'500m','memory':'2Gi'}}"));
}

TEST_IN(tfjob, chief_without_worker_is_the_worker_and_keeps_its_name)
{
    const json_t *job =
        reads(HEAD "  tfReplicaSpecs: {Chief: {restartPolicy: OnFailure, template: " POD
                   "}, Evaluator: {template: " POD "}}\n");
    assert_true(has(job, "workers", "{'min':1,'max':1}"));
    assert_true(has(job, "chief", "false"));
    assert_true(has(job, "evaluator", "true"));
    assert_true(has(job, "environment", "'kubeflow-chief'"));
    assert_true(has(job, "restart_policy", "{'worker':'OnFailure','evaluator':'Never'}"));
    job = reads(HEAD "  tfReplicaSpecs:\n    Chief: {template: " POD_WITH(
        ", resources: {limits: {nvidia.com/gpu: 1}}") "}\n    PS: {replicas: 2, template: " POD
                                                      "}\n");
    assert_true(has(job, "ps", "2"));
    assert_true(has(job, "environment", "'kubeflow-chief'"));
    assert_true(has(job, "role_labels", "{'worker':{'nvidia.com/gpu':'1'}}"));
    job = reads(LIST "  replicaSpecs:\n  - {tfReplicaType: MASTER, template: " POD
                     "}\n  - {tfReplicaType: PS, template: " POD "}\n");
    assert_true(has(job, "chief", "false"));
    assert_true(has(job, "environment", "'kubeflow-master'"));
    /* No second field of that name exists. */
    assert_true(is_refused("apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: j, "
                           "annotations: {tfe/workers: '1:2'}}\nspec:\n  tfReplicaSpecs: {Chief: "
                           "{template: " POD "}, PS: {template: " POD "}}\n",
                           "environment: kubeflow-chief requires exactly one worker"));
}

TEST_IN(tfjob, ps_without_template_runs_the_default_server)
{
    const json_t *job = reads(LIST "  RuntimeId: ''\n  tensorboard: null\n  replicaSpecs:\n"
                                   "  - {IsDefaultPS: false, tfPort: 2222, template: " POD
                                   "}\n  - {IsDefaultPS: true, replicas: 2, tfReplicaType: PS, "
                                   "tfPort: 2222}\n");
    assert_true(has(job, "ps", "2"));
    assert_true(has(job, "command", "['python','t.py']"));
    assert_true(has(job, "options", "{'default-ps':true}"));
    job =
        reads(HEAD "  tfReplicaSpecs:\n    PS: {replicas: 1, restartPolicy: Always, template: {}}\n"
                   "    Worker: {template: {spec: {terminationGracePeriodSeconds: 9, containers: "
                   "[{name: tensorflow, command: [a]}]}}}\n");
    assert_true(has(job, "options", "{'stop-grace':'9s','default-ps':true}"));
    assert_true(has(job, "restart_policy", "{'ps':'Always','worker':'Never'}"));
    assert_true(is_refused(HEAD "  tfReplicaSpecs: {Worker: {replicas: 2}}\n",
                           "containers: expected exactly one"));
    assert_true(is_refused(LIST "  tensorboard: {logDir: /x}\n  replicaSpecs: [{template: " POD
                                "}]\n",
                           "spec.tensorboard is not supported: jobs do not start a TensorBoard"));
}

/* Leftovers of Helm charts, and fields that a cluster adds. */
TEST_IN(tfjob, empty_values_and_a_clusters_own_fields_ask_for_nothing)
{
    const json_t *job = reads(
        "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata:\n  name: j\n  generateName: ''\n"
        "  annotations:\n  clusterName: ''\n  finalizers: [example.org/keep]\n"
        "  ownerReferences: [{kind: Workflow, uid: x}]\n  deletionTimestamp: '2023-04-19'\n"
        "status: {conditions: [{type: Created}]}\nspec:\n  successPolicy: ''\n"
        "  enableDynamicWorker: ''\n  runPolicy: {schedulingPolicy: {}, managedBy: ''}\n"
        "  tfReplicaSpecs:\n    PS:\n    Evaluator: {}\n    Worker:\n      replicas:\n"
        "      restartPolicy: ''\n      template:\n        metadata:\n"
        "          ownerReferences: [{kind: x}]\n        spec:\n"
        "          hostNetwork: true\n          dnsPolicy: ClusterFirstWithHostNet\n"
        "          hostPID: false\n          affinity: {nodeAffinity: {}}\n          volumes:\n"
        "          initContainers: []\n          nodeSelector:\n          serviceAccountName: ''\n"
        "          securityContext: {}\n          terminationGracePeriodSeconds:\n"
        "          containers:\n          - name: tensorflow\n            image: ''\n"
        "            command: [python, '']\n            args:\n            env:\n"
        "            envFrom: []\n            volumeMounts:\n            livenessProbe: {}\n"
        "            workingDir: ''\n            stdin: false\n            ports:\n"
        "            - {containerPort: 6006, hostPort: 6006, name: tensorboard}\n"
        "            resources: {requests: , limits: {}}\n");
    assert_true(has(job, "workers", "{'min':1,'max':1}"));
    assert_true(has(job, "ps", "0"));
    assert_true(has(job, "evaluator", "false"));
    assert_true(has(job, "command", "['python','']"));
    assert_true(has(job, "env", "{}"));
    assert_true(has(job, "image", "null"));
    assert_true(has(job, "work_dir", "null"));
    assert_true(has(job, "role_labels", "{}"));
    assert_true(has(job, "options", "{}"));
    assert_true(has(job, "restart_policy", "'Never'"));
    /* "" in a selector is a value: it matches a node with an empty label of that key. */
    job = reads(HEAD "  tfReplicaSpecs: {Worker: {template: {spec: {nodeSelector: {gpu: ''},\n"
                     "   containers: [{name: tensorflow, command: [a]}]}}}}\n");
    assert_true(has(job, "role_labels", "{'worker':{'gpu':''}}"));
}

TEST_IN(tfjob, empty_policies_have_their_defaults)
{
    const json_t *job =
        reads(HEAD "  runPolicy: {cleanPodPolicy: '', backoffLimit: '', suspend: '',\n"
                   "    ttlSecondsAfterFinished: '', activeDeadlineSeconds: ''}\n"
                   "  tfReplicaSpecs: {Worker: {restartPolicy: '', template: " POD "}}\n");
    assert_true(has(job, "clean_policy", "'Running'"));
    assert_true(has(job, "backoff_limit", "null"));
    assert_true(has(job, "suspend", "false"));
    assert_true(has(job, "ttl_after_finished_s", "null"));
    assert_true(has(job, "active_deadline_s", "null"));
    assert_true(has(job, "restart_policy", "'Never'"));
}

TEST_IN(tfjob, role_with_0_replicas_is_absent)
{
    const json_t *job =
        reads(HEAD "  tfReplicaSpecs:\n    PS: {replicas: 0, template: {spec: {volumes: [a]}}}\n"
                   "    Evaluator: {replicas: 0}\n    Worker: {replicas: 0, template: " POD
                   "}\n    Chief: {replicas: 1, template: " POD "}\n");
    assert_true(has(job, "workers", "{'min':1,'max':1}"));
    assert_true(has(job, "ps", "0"));
    assert_true(has(job, "evaluator", "false"));
    assert_true(has(job, "options", "{}"));
}

TEST_IN(tfjob, replicas_restart_policy_overrides_that_of_its_pod)
{
    const json_t *job =
        reads(HEAD "  runPolicy: {managedBy: kubeflow.org/training-operator}\n  tfReplicaSpecs:\n"
                   "    Worker: {restartPolicy: ExitCode, template: {spec: {restartPolicy: Never,\n"
                   "      containers: [{name: tensorflow, command: [a]}]}}}\n");
    assert_true(has(job, "restart_policy", "'ExitCode'"));
}

TEST_IN(tfjob, resources_are_quantities_and_zero_asks_for_nothing)
{
#define LIMITS(limits)                                                                             \
    HEAD "  tfReplicaSpecs: {Worker: {template: " POD_WITH(", resources: {limits: {" limits        \
                                                           "}}") "}}\n"
    static const struct {
        const char *limits, *labels;
    } good[] = {
        {"nvidia.com/gpu: 0", "{}"},
        {"nvidia.com/gpu: '0'", "{}"},
        {"cpu: 0m, memory: 0Gi", "{}"},
        {"nvidia.com/gpu: 1", "{'worker':{'nvidia.com/gpu':'1'}}"},
        {"nvidia.com/gpu: 1.0", "{'worker':{'nvidia.com/gpu':'1'}}"},
        {"cpu: 0.5, memory: 1e9", "{'worker':{'cpu':'0.5','memory':'1000000000'}}"},
        {"cpu: 500m, memory: 1.5Gi", "{'worker':{'cpu':'500m','memory':'1.5Gi'}}"},
        {"cpu: .25", "{'worker':{'cpu':'0.25'}}"},
    };
    static const char *const bad[] = {"cpu: two",  "cpu: -1",   "memory: 1Gb",
                                      "cpu: true", "cpu: -0.5", "memory: 4 Gi"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char text[512];
        (void)snprintf(text, sizeof(text), LIMITS("%s"), good[i].limits);
        assert_true(has(reads(text), "role_labels", good[i].labels));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[512];
        (void)snprintf(text, sizeof(text), LIMITS("%s"), bad[i]);
        assert_true(is_refused(text, "expected a quantity"));
    }
    /* A request of zero overrides the limit; equal amounts may be given twice. */
    const json_t *job = reads(
        HEAD "  tfReplicaSpecs: {Worker: {template: {spec: {nodeSelector: {memory: 4096Mi},\n"
             "   containers: [{name: tensorflow, command: [a], resources: {requests: {cpu: 0, "
             "memory: 4Gi}, limits: {cpu: 2}}}]}}}}\n");
    assert_true(has(job, "role_labels", "{'worker':{'memory':'4Gi'}}"));
}

TEST_IN(tfjob, list_of_one_job_is_that_job)
{
#define ITEM                                                                                       \
    "{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: one}, spec: "                     \
    "{tfReplicaSpecs: {Worker: {template: " POD "}}}}"
    assert_true(has(reads("apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\n"
                          "items: [" ITEM "]\n"),
                    "name", "'one'"));
    assert_true(is_refused("apiVersion: v1\nkind: TFJobList\nitems: [" ITEM ", " ITEM "]\n",
                           "items: expected one job, found 2"));
    assert_true(is_refused("kind: List\n", "items: expected one job, found 0"));
}

TEST_IN(tfjob, variables_in_commands_are_expanded_as_kubernetes_does)
{
    const json_t *job = reads(HEAD "  tfReplicaSpecs: {Worker: {template: " POD_WITH(
        ", args: ['--dir=$(DIR)/m', '$(NONE)', '$$(DIR)', '$', '$(', 'a$b'],\n"
        "  env: [{name: ROOT, value: /data}, {name: DIR, value: $(ROOT)/x},\n"
        "  {name: LATE, value: $(LATER)}, {name: LATER, value: z}, {name: EMPTY}]") "}}\n");
    assert_true(has(job, "command",
                    "['python','t.py','--dir=/data/x/m','$(NONE)','$(DIR)','$','$(','a$b']"));
    assert_true(has(job, "env",
                    "{'ROOT':'/data','DIR':'/data/x','LATE':'$(LATER)','LATER':'z','EMPTY':''}"));
}

TEST_IN(tfjob, the_node_and_its_grace)
{
    const json_t *job = reads(
        HEAD "  tfReplicaSpecs: {Worker: {template: {spec: {nodeSelector: {gpu: a100},\n"
             "   hostNetwork: true, restartPolicy: Always, terminationGracePeriodSeconds: 20,\n"
             "   containers: [{name: tensorflow, command: [a], workingDir: /opt/x}]}}}}\n");
    assert_true(has(job, "role_labels", "{'worker':{'gpu':'a100'}}"));
    assert_true(has(job, "options", "{'stop-grace':'20s'}"));
    assert_true(has(job, "work_dir", "'/opt/x'"));
    assert_true(has(job, "restart_policy", "'Always'"));
    assert_string_equal(reading_warned(), ""); /* the manifest names no image */
}

TEST_IN(tfjob, annotations_say_what_kubeflow_has_no_field_for)
{
    const json_t *job =
        reads("apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata:\n  name: j\n  annotations:\n"
              "    tfe/workers: '2:8'\n    tfe/priority: '700'\n    tfe/preempt: 'true'\n"
              "    tfe/nproc: '2'\n    tfe/git: https://example.org/x\n    tfe/ref: v1\n"
              "    example.org/other: x\n"
              "spec: {tfReplicaSpecs: {Worker: {replicas: 4, template: " POD "}}}\n");
    assert_true(has(job, "workers", "{'min':2,'max':8}"));
    assert_true(has(job, "priority", "700"));
    assert_true(has(job, "preempt", "true"));
    assert_true(has(job, "nproc", "2"));
    assert_true(has(job, "source", "{'git':'https://example.org/x','ref':'v1'}"));
}

TEST(tfjob, what_cannot_be_honoured_is_refused_by_name)
{
#define WORKER(more) HEAD "  tfReplicaSpecs: {Worker: {template: " POD_WITH(more) "}}\n"
#define SPEC(more) HEAD more "  tfReplicaSpecs: {Worker: {template: " POD "}}\n"
#define IN_POD(more)                                                                               \
    HEAD "  tfReplicaSpecs: {Worker: {template: {spec: {" more                                     \
         ", containers: [{name: tensorflow, command: [a]}]}}}}\n"
#define META(more)                                                                                 \
    "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {" more                                   \
    "}\nspec: {tfReplicaSpecs: {Worker: {template: " POD "}}}\n"
    static const struct {
        const char *text, *part;
    } bad[] = {
        {"kind: TFJob\n", "apiVersion: "},
        {"apiVersion: v1\nkind: Pod\n", "kind: expected TFJob"},
        {"apiVersion: kubeflow.org/v2\nkind: TFJob\n", "apiVersion: "},
        {HEAD "  x: 1\n", "spec.x is not supported"},
        {HEAD "  {}\n", "spec.tfReplicaSpecs: expected a mapping of replicas"},
        {HEAD "  replicaSpecs: [a]\n", "spec.replicaSpecs is not supported"},
        {LIST "  tfReplicaSpecs: {a: b}\n", "spec.tfReplicaSpecs is not supported"},
        {LIST "  replicaSpecs: {a: b}\n", "spec.replicaSpecs: expected a list of replicas"},
        {LIST "  replicaSpecs: [{tfReplicaType: TB, template: " POD "}]\n",
         "spec.replicaSpecs[0]: expected Chief, Master, Worker, PS or Evaluator, found \"TB\""},
        {HEAD "  tfReplicaSpecs: {}\n", "spec.tfReplicaSpecs: expected a mapping of replicas"},
        {HEAD "  tfReplicaSpecs: {PS: {template: " POD "}}\n", "no replica that trains"},
        {HEAD "  tfReplicaSpecs: {Master: {template: " POD "}, Chief: {template: " POD
              "}, Worker: {template: " POD "}}\n",
         "the same role"},
        {HEAD "  tfReplicaSpecs: {Worker: {template: " POD "}, worker: {template: " POD "}}\n",
         "spec.tfReplicaSpecs.worker: the role is given twice"},
        {HEAD "  tfReplicaSpecs: {Chief: {replicas: 2, template: " POD "}}\n",
         "spec.tfReplicaSpecs.Chief: replicas: expected an integer from 0 to 1"},
        {HEAD "  tfReplicaSpecs: {Evaluator: {replicas: 2, template: " POD "}}\n", "from 0 to 1"},
        {HEAD "  tfReplicaSpecs: {Worker: {replicas: -1, template: " POD "}}\n", "from 0 to 65536"},
        {HEAD "  tfReplicaSpecs: {Worker: {replicas: 0, template: " POD "}}\n",
         "no replica that trains"},
        {HEAD "  tfReplicaSpecs: {Worker: {replicas: '2', template: " POD "}}\n", "replicas: "},
        {HEAD "  tfReplicaSpecs: {Worker: {elastic: 1, template: " POD "}}\n",
         "spec.tfReplicaSpecs.Worker: elastic is not supported"},
        {HEAD "  tfReplicaSpecs: {Worker: {replicas: 1}}\n",
         "template.spec.containers: expected exactly one container"},
        {HEAD "  tfReplicaSpecs: {Worker: 5}\n", "spec.tfReplicaSpecs.Worker: expected a mapping"},
        {HEAD "  tfReplicaSpecs: {Worker: {template: " POD
              "}, PS: {template: " POD_WITH(", args: [--ps]") "}}\n",
         "spec.tfReplicaSpecs.PS: command differs from that of Worker"},
        {HEAD "  tfReplicaSpecs: {Worker: {template: " POD "},\n"
              "    PS: {template: {spec: {containers: [{name: tensorflow, image: org/y:1,\n"
              "    command: [python, t.py]}]}}}}\n",
         "spec.tfReplicaSpecs.PS: image differs from that of Worker"},
        {HEAD "  tfReplicaSpecs: {Worker: {template: " POD
              "}, PS: {template: " POD_WITH(", env: [{name: A, value: b}]") "}}\n",
         "env differs from that of Worker"},
        {HEAD "  tfReplicaSpecs: {Worker: {restartPolicy: Maybe, template: " POD "}}\n",
         "restart_policy: expected one of"},
        {SPEC("  enableDynamicWorker: true\n"), "spec.enableDynamicWorker is not supported"},
        {SPEC("  runPolicy: {schedulingPolicy: {minAvailable: 1}}\n"),
         "spec.runPolicy.schedulingPolicy is not supported: a job always gets all nodes of its "
         "minimum"},
        {SPEC("  runPolicy: {runLauncherAsNode: true}\n"),
         "spec.runPolicy.runLauncherAsNode is not supported"},
        {SPEC("  runPolicy: {backoffLimit: -1}\n"), "backoff_limit: "},
        {SPEC("  successPolicy: Some\n"), "success_policy: expected one of"},
        {IN_POD("volumes: [{name: v}]"),
         "template.spec.volumes is not supported: nodes do not mount volumes"},
        {IN_POD("initContainers: [{name: i}]"), "template.spec.initContainers is not supported"},
        {IN_POD("affinity: {nodeAffinity: {a: b}}"), "template.spec.affinity is not supported"},
        {IN_POD("serviceAccountName: x"), "template.spec.serviceAccountName is not supported"},
        {IN_POD("terminationGracePeriodSeconds: -1"),
         "terminationGracePeriodSeconds: expected an integer from 0 to"},
        {IN_POD("nodeSelector: [a]"), "template.spec.nodeSelector: expected a mapping"},
        {IN_POD("nodeSelector: {a: 1.5}"), "template.spec.nodeSelector: a: expected a string"},
        {HEAD "  tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: tensorflow, "
              "command: [a]}, {name: sidecar}]}}}}\n",
         "template.spec.containers: expected exactly one container"},
        {HEAD "  tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: main}]}}}}\n",
         "template.spec.containers[0]: name: expected tensorflow"},
        {HEAD "  tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: tensorflow, "
              "args: [a]}]}}}}\n",
         "command: missing (the entry point of the image"},
        {HEAD "  tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: tensorflow, "
              "command: python t.py}]}}}}\n",
         "command: expected a list"},
        {WORKER(", volumeMounts: [{name: v}]"), "containers[0]: volumeMounts is not supported"},
        {WORKER(", envFrom: [{secretRef: {name: s}}]"), "envFrom is not supported"},
        {WORKER(", livenessProbe: {exec: x}"), "livenessProbe is not supported"},
        {WORKER(", env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"),
         "env[0]: valueFrom.fieldRef is not supported: there is no pod"},
        {WORKER(", env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]"),
         "env[0]: valueFrom.resourceFieldRef is not supported: there is no pod"},
        {WORKER(", env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]"),
         "valueFrom.secretKeyRef is not supported: nodes have no access to Kubernetes secrets"},
        {WORKER(", env: [{name: A, valueFrom: {configMapKeyRef: {name: s, key: k}}}]"),
         "valueFrom.configMapKeyRef is not supported: nodes have no access to Kubernetes "
         "ConfigMaps"},
        {WORKER(", env: [{name: A, value: 1}]"), "env[0]: A: expected a string"},
        {WORKER(", env: [{value: a}]"), "env[0]: name: missing"},
        {WORKER(", env: [{name: A}, {name: A}]"), "env[1]: A: given twice"},
        {WORKER(", env: {A: b}"), "env: expected a list"},
        {WORKER(", env: [{name: TF_CONFIG, value: '{}'}]"),
         "env: TF_CONFIG: reserved (the agent sets"},
        {WORKER(", args: [1]"), "args[0]: expected a string"},
        {WORKER(", args: x"), "args: expected a list"},
        {WORKER(", resources: {claims: [{name: c}]}"), "resources.claims is not supported"},
        {WORKER(", resources: {limits: {cpu: [1]}}"), "resources.limits: cpu: expected a quantity"},
        {META("namespace: x"), "metadata.name: missing"},
        {META("generateName: 'a b'"), "generate_name: expected at most 58 characters"},
        {META("name: j, spec: x"), "metadata.spec is not supported"},
        {META("name: 'a b'"), "name: expected 1 to 64"},
        {META("name: j, annotations: {tfe/wrkers: '2'}"), "tfe/wrkers: unknown annotation"},
        {META("name: j, annotations: {tfe/priority: 5}"), "tfe/priority: expected a string"},
        {META("name: j, annotations: {tfe/priority: high}"), "priority: expected an integer"},
        {META("name: j, annotations: {tfe/workers: '8:2'}"), "workers: expected N, "},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_true(is_refused(bad[i].text, bad[i].part));
    }
}

TEST(tfjob, template_that_was_not_filled_in_is_named)
{
    assert_true(is_refused("apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata:\n  # {{ no }}\n"
                           "  name: {{.Trial}}\n",
                           "line 5 contains \"{{\": the template"));
    assert_true(is_refused(META("name: '{{ .Release.Name }}'"), "line 3 contains \"{{\""));
    /* The text of a command is not changed. */
    assert_true(has(
        reads(HEAD "  tfReplicaSpecs: {Worker: {template: " POD_WITH(", args: ['{{x}}']") "}}\n"),
        "command", "['python','t.py','{{x}}']"));
    reading_done();
}

TEST(tfjob, one_node_cannot_have_two_values_of_a_label)
{
    assert_true(is_refused(
        HEAD "  tfReplicaSpecs: {Worker: {template: {spec: {nodeSelector: {cpu: '4'}, containers: "
             "[{name: tensorflow, command: [a], resources: {requests: {cpu: 2}}}]}}}}\n",
        "template.spec.nodeSelector: cpu: one node cannot have both 2 and 4"));
}

TEST(tfjob, an_expanded_word_is_bounded)
{
    char text[8192];
    char value[2101];
    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    (void)snprintf(text, sizeof(text), WORKER(", env: [{name: A, value: %s}], args: ['%s']"), value,
                   "$(A)$(A)");
    assert_true(is_refused(text, "args[0]: the value is longer than 4096 bytes"));
}

/* Allocations of jansson that succeed before one fails; the later ones succeed again. */
static size_t pieces_left;
static bool is_out_of_memory;

static void *scarce_malloc(size_t n)
{
    if (pieces_left == 0) {
        return malloc(n);
    }
    is_out_of_memory = --pieces_left == 0;
    return is_out_of_memory ? NULL : malloc(n);
}

TEST(tfjob, each_piece_of_memory_may_fail)
{
    static const char text[] =
        "apiVersion: kubeflow.org/v1alpha1\nkind: TFJob\nmetadata: {name: j, annotations: "
        "{tfe/priority: '7', tfe/path: /x}}\nspec:\n  replicaSpecs:\n  - {template: " POD_WITH(
            ", args: [$(A)], env: [{name: A, value: b}, {name: B}], "
            "resources: {limits: {cpu: 1}}") "}\n";
    size_t n = 0;
    size_t failures = 0;
    json_set_alloc_funcs(scarce_malloc, free);
    do {
        struct tfe_reason reason = {""};
        json_t *job = NULL;
        pieces_left = ++n;
        is_out_of_memory = false;
        int rc = job_text_read(text, strlen(text), &job, &reason);
        pieces_left = 0;
        /* A failed allocation never yields an incomplete job. */
        if (rc) {
            assert_null(job);
            if (rc != TFE_ENOMEM) {
                print_message("piece %zu: %s\n", n, reason.text);
            }
            assert_int_equal(rc, TFE_ENOMEM);
            assert_string_equal(reason.text, "out of memory");
            failures++;
        } else {
            assert_true(has(job, "command", "['python','t.py','b']"));
            assert_true(has(job, "role_labels", "{'worker':{'cpu':'1'}}"));
            json_decref(job);
        }
    } while (is_out_of_memory);
    json_set_alloc_funcs(malloc, free);
    assert_true(failures > 100);
}
