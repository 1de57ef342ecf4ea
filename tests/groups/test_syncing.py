from kcoord.errors import ErrorCode
from tests.groups.scene import Scene


def test_a_follower_that_syncs_first_waits_for_the_leader(scene: Scene) -> None:
    leader = scene.join().reply.member_id
    joining = scene.join()
    generation = scene.join(leader).reply.generation_id
    follower = joining.reply.member_id
    asking = scene.sync(follower, generation)
    assert asking.is_parked
    scene.sync(leader, generation, {follower: b"all of it"})
    assert asking.reply.error_code is ErrorCode.none
    assert asking.reply.assignment == b"all of it"


def test_time_passes_in_a_stable_group_and_silent_members_expire(scene: Scene) -> None:
    scene.stable_group(3)
    scene.pass_time(9.9)
    assert len(scene.describe().members) == 3
    scene.pass_time(0.2)
    assert scene.describe().group_state == "Empty"
