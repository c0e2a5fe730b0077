"""The published planner's Kubernetes connector, on a graph of ours.

    planner.py FOLDERS NAMESPACE GRAPH read                 what it reads of the graph and its workers
    planner.py FOLDERS NAMESPACE GRAPH scale PREFILL DECODE  scales both and waits until it sees them ready

FOLDERS, separated as in PATH, hold the packages `dynamo`: of the first that has a module, it is taken. The answer is the last
line, as JSON. The package's initialiser wants much that its connector does not; modules without one stand in for it.
"""

import asyncio
import json
import os
import sys
import types

folders, namespace, graph, command, *numbers = sys.argv[1:]
sys.path[:0] = folders.split(os.pathsep)

import dynamo  # noqa: E402


def without_initialiser(name):
    parent, _, leaf = name.rpartition(".")
    module = types.ModuleType(name)
    module.__path__ = [os.path.join(folder, leaf) for folder in sys.modules[parent].__path__]
    sys.modules[name] = module
    setattr(sys.modules[parent], leaf, module)


for name in ["dynamo.planner", "dynamo.planner.core"]:
    without_initialiser(name)

from dynamo.planner.config.defaults import SubComponentType, TargetReplica  # noqa: E402
from dynamo.planner.connectors.kubernetes import KubernetesConnector  # noqa: E402

ROLES = {"prefill": SubComponentType.PREFILL, "decode": SubComponentType.DECODE}
BASE = f"{namespace}-{graph}"

connector = KubernetesConnector(BASE, k8s_namespace=namespace, parent_dgd_name=graph, raise_not_ready=True)


async def counts():
    names = {f"{role}_component_name": role for role in ROLES}
    return list(await connector.get_actual_worker_counts(**names))


async def read():
    answer = {
        "from": sys.modules[KubernetesConnector.__module__].__file__,
        "model": connector.get_model_name(),
        "workers": {role: vars(connector.get_worker_info(kind, "mocker")) for role, kind in ROLES.items()},
        "namespace": connector.get_worker_runtime_namespace(BASE),
        "metrics": connector.get_frontend_metrics_url(),
        "counts": await counts(),
    }
    await connector.validate_deployment()
    # From 1.6 on.
    if hasattr(connector, "get_gpu_shapes"):
        answer["gpus"] = connector.get_gpu_shapes()
        answer["inventory"] = vars(await connector.get_worker_inventory("prefill", "decode"))
    return answer


async def scale():
    wanted = [int(number) for number in numbers]
    targets = [
        TargetReplica(sub_component_type=kind, component_name=role, desired_replicas=number)
        for (role, kind), number in zip(ROLES.items(), wanted)
    ]
    await connector.set_component_replicas(targets, blocking=False)
    while True:
        # It may still be ready for what was wanted before.
        await connector.kube_api.wait_for_graph_deployment_ready(graph, max_attempts=120, delay_seconds=1)
        seen = await counts()
        if seen == [*wanted, True]:
            return {"counts": seen}


print(json.dumps(asyncio.run(asyncio.wait_for({"read": read, "scale": scale}[command](), 170))))
